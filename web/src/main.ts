// Listens to the hub from the very first: it answers while the rest of the page is being read.

import { page } from "./state/page.svelte";

page.connect();
void import("./start");
