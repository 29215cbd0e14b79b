// The page: a bar at the top, and what the address names below it.
import "./texts.ts";
import "./keys.ts";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Dialog, elsewhere, Link, Menu } from "./parts.tsx";
import { connected } from "./api.ts";
import { go, goToShown, helpShown, place, theme, utc } from "./state.ts";
import { caller, may, refused } from "./caller.ts";
import { Clock } from "./clock.tsx";
import { later } from "./lazy.tsx";
import { Toast } from "./toast.tsx";
import { OverviewPage } from "./overview.tsx";
import { Signed, SignIn, useCaller } from "./signin.tsx";

const others = () => import("./others.ts");
const RunPage = later(() => others().then((m) => m.RunPage)), Runs = later(() => others().then((m) => m.Runs));
const Compare = later(() => others().then((m) => m.Compare)), Lab = later(() => others().then((m) => m.Lab));
const Tokens = later(() => others().then((m) => m.Tokens)), Audit = later(() => others().then((m) => m.Audit));
const Queues = later(() => others().then((m) => m.Queues)), Flows = later(() => others().then((m) => m.Flows));
const Palette = later(() => others().then((m) => m.Palette)), Start = later(() => others().then((m) => m.Start));
const Deadlines = later(() => others().then((m) => m.Deadlines)), Schedules = later(() => others().then((m) => m.Schedules));
const Webhooks = later(() => others().then((m) => m.Webhooks));

const pages: [string, string][] = [
  ["/", "Overview"], ["/runs", "Runs"], ["/deadlines", "Deadlines"], ["/queues", "Queues"], ["/schedules", "Schedules"], ["/flows", "Flows"], ["/lab", "Lab"],
  ["/webhooks", "Webhooks"], ["/tokens", "Tokens"], ["/audit", "Audit"],
];
const titles: Record<string, string> = { "/start": "Start a run", "/compare": "Compare" };
const themes = ["system", "light", "dark"];
// Pages for admins of a server that asks for tokens.
const forAdmins = new Set(["/tokens", "/audit"]);

const keys: [string, string][] = [
  ["?", "show these keys"], ["Ctrl K", "go to a page, a flow or a run, or do something to it"], ["/", "go to the first field"], ["j k", "the next run or step, the one before"], ["r", "go to what one most likely does to a run"], ["e", "the next step that failed"], ["[ ]", "a run as it was, one event back, one on"], ["b", "a timeline as time went, or with breaks"], ["Enter", "open the chosen run"], ["x", "select it; with shift all up to it"], ["o", "fold or unfold the chosen group"],
  ["h g", "the overview, all runs"], ["d l s", "deadlines, the lab, start a run"], ["u", "local time or UTC"], ["t", "light, dark, as the system has it"], ["Esc", "close what is open"],
];

// Some keys mean the same on each page.
addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k" && !document.querySelector("dialog[open]")) {
    e.preventDefault();
    goToShown.value = true;
  }
  if (elsewhere(e)) {
    if (e.key === "Escape" && e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) e.target.blur();
    return;
  }
  switch (e.key) {
    case "?": helpShown.value = !helpShown.value; break;
    case "/": e.preventDefault(); document.querySelector<HTMLInputElement>("main input[type=search], main input, main textarea")?.focus(); break;
    case "h": go("/"); break;
    case "g": go("/runs"); break;
    case "d": go("/deadlines"); break;
    case "l": go("/lab"); break;
    case "s": e.preventDefault(); go("/start"); break;
    case "u": utc.value = !utc.value; break;
    case "t": theme.value = theme.value === "system" ? "dark" : theme.value === "dark" ? "light" : "system"; break;
  }
});

function PageOf({ at }: { at: URL }) {
  switch (at.pathname) {
    case "/compare": return <Compare search={at.search} />;
    case "/deadlines": return <Deadlines search={at.search} />;
    case "/flows": return <Flows />;
    case "/start": return <Start search={at.search} />;
    case "/lab": return <Lab search={at.search} />;
    case "/schedules": return <Schedules />;
    case "/webhooks": return <Webhooks />;
    case "/queues": return <Queues />;
    case "/tokens": return <Tokens />;
    case "/audit": return <Audit search={at.search} />;
    case "/runs": return <Runs search={at.search} />;
    default: return <OverviewPage search={at.search} />;
  }
}

function Content({ at, run }: { at: URL; run: string | null }) {
  if (refused.value !== null) return <SignIn />;
  if (!caller.value) return <main><p class="dim">Loading…</p></main>;
  return (
    <>
      <Clock />
      {run !== null ? <RunPage id={run} at={at} /> : <PageOf at={at} />}
    </>
  );
}

function App() {
  useCaller();
  const shown = pages.filter(([to]) => !forAdmins.has(to) || caller.value?.guarded && may("admin"));
  const at = new URL(place.value, location.origin);
  const run = /^\/run\/([^/]+)$/.exec(at.pathname);
  useEffect(() => { document.title = `${run ? decodeURIComponent(run[1] ?? "") : pages.find(([to]) => to === at.pathname)?.[1] ?? titles[at.pathname] ?? "Overview"} · Pawl`; }, [place.value]);
  const content = useRef<HTMLDivElement>(null), from = useRef(at.pathname);
  useEffect(() => { // the chosen page comes into sight on a narrow screen
    const reveal = (): void => {
      const chosen = document.querySelector(".bar nav [aria-current]");
      if (chosen?.parentElement) chosen.parentElement.scrollLeft += chosen.getBoundingClientRect().left - innerWidth / 2;
    };
    reveal();
    addEventListener("resize", reveal);
    return () => removeEventListener("resize", reveal);
  }, [at.pathname]);
  useEffect(() => { // what is read out goes on with the page that is new
    if (from.current !== at.pathname) content.current?.focus({ preventScroll: true });
    from.current = at.pathname;
  }, [at.pathname]);
  return (
    <>
      <header class="bar"><div>
        <Link to="/" class="brand"><span aria-hidden="true">◢</span> pawl</Link>
        <nav aria-label="Pages">{shown.map(([to, name]) => <Link key={to} to={to} current={at.pathname === to || to === "/runs" && (run !== null || at.pathname === "/compare") || to === "/flows" && at.pathname === "/start"}>{name}</Link>)}</nav>
        <span class="grow" />
        <button type="button" class="goto-button dim" onClick={() => { goToShown.value = true; }}>Go to… <kbd>Ctrl K</kbd></button>
        {refused.value === null ? <span class={connected.value ? "dim live" : "urgent live"} role="status">{connected.value ? "● live" : "○ not connected, trying again"}</span> : null}
        <Signed />
        <Menu label="View">
          <button type="button" onClick={() => { utc.value = !utc.value; }}>{utc.value ? "Local time" : "UTC"}</button>
          {themes.map((t) => <button type="button" key={t} aria-pressed={theme.value === t} onClick={() => { theme.value = t; }}>Theme: {t}{theme.value === t ? " ✓" : ""}</button>)}
          <button type="button" onClick={() => { helpShown.value = true; }}>Keyboard shortcuts</button>
          <a href="/docs">API</a>
        </Menu>
      </div></header>
      <div tabIndex={-1} ref={content}><Content at={at} run={run ? decodeURIComponent(run[1] ?? "") : null} /></div>
      <Toast />
      {goToShown.value ? <Palette pages={shown} onClose={() => { goToShown.value = false; }} /> : null}
      {helpShown.value ? (
        <Dialog title="Keyboard shortcuts" onClose={() => { helpShown.value = false; }}>
          <dl class="keys">{keys.map(([k, what]) => <><dt><kbd>{k}</kbd></dt><dd>{what}</dd></>)}</dl>
          <form method="dialog"><div class="menu"><button>Close</button></div></form>
        </Dialog>
      ) : null}
    </>
  );
}

render(<App />, document.body);
