// Mounts the page, or the wall view.

import { mount } from "svelte";
import App from "./App.svelte";
import "./style/tokens.css";
import "./style/page.css";

const target = document.getElementById("page");
const isWall = new URLSearchParams(location.search).has("wall");

// All of the wall view is loaded now: later the hub may have other files.
if (target && isWall) void import("./view/wall/Wall.svelte").then(({ default: Wall }) => mount(Wall, { target }));
else if (target) mount(App, { target });
