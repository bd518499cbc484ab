// Connects to the hub first: it responds while the rest of the page loads.

import { page } from "./state/page.svelte";

page.connect();
void import("./start");
