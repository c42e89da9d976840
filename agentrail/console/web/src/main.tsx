import { render } from "preact";
import { App } from "./app";
import { takeKeyFromAddress } from "./host/key";
import { applyTheme } from "./theme";

takeKeyFromAddress();
addEventListener("hashchange", takeKeyFromAddress); // such an address was given to a page that was open
applyTheme();
const root = document.getElementById("console");
if (root) render(<App />, root);
