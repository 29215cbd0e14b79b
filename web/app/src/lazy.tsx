// Views that are loaded when they are first shown, since few look at them.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

// later returns a view that loads another one.
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let known: ComponentType<P> | null = null;
  return function Later(props: P) {
    const [View, setView] = useState<{ of: ComponentType<P> } | null>(known ? { of: known } : null);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (!View) load().then((of) => { known = of; setView({ of }); }, () => setFailed(true));
    }, []);
    if (failed) return <p class="problem" role="alert">This part of the page cannot be loaded. Load the page again.</p>;
    return View ? <View.of {...props} /> : <p class="dim">Loading…</p>;
  };
}
