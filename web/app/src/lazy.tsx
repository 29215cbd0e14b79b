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
    // A browser may keep that a file could not be loaded, so that only the whole page is asked for again.
    if (failed) return <p class="problem" role="alert">This part of the page cannot be loaded. <button type="button" onClick={() => location.reload()}>Load the page again</button></p>;
    return View ? <View.of {...props} /> : <p class="dim">Loading…</p>;
  };
}
