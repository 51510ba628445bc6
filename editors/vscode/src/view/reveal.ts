// Reveals hidden characters in everything that the webview draws: element texts and the attributes that users read or
// hear. Input values stay unchanged.

import { options, type VNode } from "preact";
import { revealInProse } from "../format";

const READABLE_ATTRIBUTES = ["title", "aria-label", "placeholder"];

function revealChildren(children: unknown): unknown {
  if (typeof children === "string") return revealInProse(children);
  return Array.isArray(children) ? children.map(revealChildren) : children;
}

/** Hooks into Preact, so that all later elements are revealed. */
export function revealAllTexts(): void {
  const next = options.vnode;
  options.vnode = (vnode: VNode) => {
    if (typeof vnode.type === "string") {
      const props = vnode.props as Record<string, unknown>;
      if ("children" in props) props["children"] = revealChildren(props["children"]);
      for (const name of READABLE_ATTRIBUTES) {
        const text = props[name];
        if (typeof text === "string") props[name] = revealInProse(text);
      }
    }
    next?.(vnode);
  };
}
