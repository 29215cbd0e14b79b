// All texts and titles of the page pass here, so that no place that shows one can forget it: control characters, and
// those that turn the direction of what stands beside them, become signs of their own. What one types is left alone.
import { options, type VNode } from "preact";
import { plain } from "./ansi.ts";

const before = options.vnode;
const spoken = ["title", "aria-label", "alt", "placeholder"];

options.vnode = (v: VNode) => {
  const node = v as { type: unknown; props: unknown };
  if (typeof node.props === "string") node.props = plain(node.props); // a text
  else if (typeof node.type === "string" && node.props) {
    const props = node.props as Record<string, unknown>;
    for (const name of spoken) if (typeof props[name] === "string") props[name] = plain(props[name]);
  }
  before?.(v);
};
