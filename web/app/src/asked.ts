// Asks for things again while they are shown.
import { useEffect, useState } from "preact/hooks";

// useAsked asks for something now, every so many milliseconds while the page can be seen, and when told to.
export function useAsked<T>(ask: () => Promise<T>, key: string, every = 3000): [T | null, unknown, () => void] {
  const [got, setGot] = useState<T | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [again, setAgain] = useState(0);
  useEffect(() => {
    let over = false;
    const read = () => ask().then((g) => { if (!over) { setGot(g); setError(null); } }, (e: unknown) => { if (!over) setError(e); });
    void read();
    const timer = setInterval(() => { if (!document.hidden) void read(); }, every);
    return () => { over = true; clearInterval(timer); };
  }, [key, again]);
  return [got, error, () => setAgain(again + 1)];
}
