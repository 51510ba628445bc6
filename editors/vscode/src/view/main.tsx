// The entry point of the webview.

import { render } from "preact";
import { App } from "./app";
import { startQuestionKeys } from "./questionFocus";
import { revealAllTexts } from "./reveal";
import { firstDrawMs, startRendering, takeLongestDraw } from "./store";

revealAllTexts();
startQuestionKeys();
const root = document.getElementById("root");
if (root) startRendering((view) => render(<App view={view} />, root));

// Tests read these drawing times.
Object.assign(window, { agentlsLongestDraw: takeLongestDraw });
Object.defineProperty(window, "agentlsFirstDraw", { get: () => firstDrawMs });
