// Where the page begins.

import { render } from "preact";
import { App } from "./app";
import { revealAllTexts } from "./reveal";
import { firstDrawMs, startRendering, takeLongestDraw } from "./store";

revealAllTexts();
const root = document.getElementById("root");
if (root) startRendering((view) => render(<App view={view} />, root));

// Tests read here how long the longest drawing and the first one took.
Object.assign(window, { agentlsLongestDraw: takeLongestDraw });
Object.defineProperty(window, "agentlsFirstDraw", { get: () => firstDrawMs });
