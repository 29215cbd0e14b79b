// Asks for a token where the server does, and shows who is signed in.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { Failed, getCaller, getVersion, signOut } from "./api.ts";
import { caller, choose, may, refused, show, shows } from "./caller.ts";
import { Problem } from "./parts.tsx";

// ask finds out who the caller is. It is asked again while the server does not answer.
async function ask(): Promise<void> {
  try {
    if (!shows() && (await getVersion()).asksForToken) { // a browser notes each request that is refused
      refused.value ??= "";
      return;
    }
    caller.value = await getCaller();
    refused.value = null;
  } catch (e) {
    if (!(e instanceof Failed) || e.status === 0) throw e;
    if (e.status === 404) { // the namespace of before is not there any more
      choose("");
      throw e;
    }
    refused.value = e.message;
  }
}

export function useCaller(): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = () => { ask().catch(() => { timer = setTimeout(read, 2000); }); };
    read();
    return () => clearTimeout(timer);
  }, []);
}

export function SignIn() {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [tried, setTried] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [issuer, setIssuer] = useState("");
  useEffect(() => { getVersion().then((v) => setIssuer(v.signIn ?? ""), setError); }, []);
  const submit = async () => {
    setBusy(true);
    setError(null);
    show(text.trim());
    choose("");
    try { await ask(); } catch (e) { setError(e); }
    setTried(true);
    setBusy(false);
  };
  return (
    <main class="signin">
      <h1>Sign in</h1>
      {issuer ? <p><a class="main" href={"/login?to=" + encodeURIComponent(location.pathname + location.search)}>Sign in at {plain(issuer)}</a></p> : null}
      {issuer ? <p class="dim">or show a token:</p> : null}
      <form class="card" onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <label>Token <input type="password" name="token" autocomplete="off" spellcheck={false} required value={text} placeholder="pawl_…"
          onInput={(e) => setText(e.currentTarget.value)} /></label>
        {tried && refused.value ? <p class="problem" role="alert">{plain(refused.value)}</p> : null}
        <Problem error={error} />
        <div class="actions"><button type="submit" class="main" disabled={busy}>Sign in</button></div>
      </form>
      <p class="dim">It is kept until this tab is closed. Whoever runs the server makes one:</p>
      <pre>pawl token create ada --role read</pre>
    </main>
  );
}

// Signed shows whose token it is, the namespaces that it may choose, and the way out.
export function Signed() {
  const c = caller.value;
  const [error, setError] = useState<unknown>(null);
  const out = async () => {
    try { if (!shows()) await signOut(); } catch (e) { setError(e); return; }
    show("");
    choose("");
    caller.value = null;
    refused.value = "You have signed out.";
  };
  if (!c?.guarded) return null;
  const to = (name: string) => { choose(name); caller.value = null; void ask().catch(() => location.reload()); };
  return (
    <>
      {(c.namespaces ?? []).length > 1 ? <label class="namespace">Namespace <select value={c.namespace} onChange={(e) => to(e.currentTarget.value)}>
        {(c.namespaces ?? []).map((n) => <option key={n} value={n}>{n}</option>)}</select></label> : null}
      <span class="dim who"><bdi>{plain(c.name ?? "")}</bdi>, {c.role}</span>
      <Problem error={error} />
      <button type="button" onClick={() => void out()}>Sign out</button>
    </>
  );
}

// Needs shows what asks for a role. Who has another one sees it, cannot use it, and is told why.
export function Needs({ role, children }: { role: string; children: ComponentChildren }) {
  if (may(role)) return <>{children}</>;
  return (
    <fieldset class="needs" disabled>
      {children}
      <p class="dim">The token “{plain(caller.value?.name ?? "")}” has the role {caller.value?.role}: this needs the {role} role.</p>
    </fieldset>
  );
}
