import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/components.css";

import { render } from "preact";

import { Shell } from "./shell";

const root = document.getElementById("app");
if (root) render(<Shell />, root);
