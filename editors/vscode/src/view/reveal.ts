// No text that the page draws can hide anything: each element's texts, and the attributes that a person reads or hears,
// are revealed as the element is described. What is typed (values) stays as it is.

import { options, type VNode } from "preact";
import { revealInProse } from "../format";

const READABLE_ATTRIBUTES = ["title", "aria-label", "placeholder"];

function revealChildren(children: unknown): unknown {
  if (typeof children === "string") return revealInProse(children);
  return Array.isArray(children) ? children.map(revealChildren) : children;
}

/** Reveals all texts from now on. */
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
