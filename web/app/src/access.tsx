// Who may use the server, and what they did: tokens and the audit log, for admins.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import type { Audited, Token } from "./api.ts";
import { createToken, listAudit, listTokens, revokeToken } from "./api.ts";
import { caller } from "./caller.ts";
import { Dialog, Link, Problem, Time } from "./parts.tsx";
import { Needs } from "./signin.tsx";
import { go } from "./state.ts";

const roles: [string, string][] = [
  ["read", "sees everything, changes nothing"], ["approve", "also sends events, such as decisions"], ["operate", "also starts what the server has, and acts on runs"],
  ["admin", "everything"], ["worker", "takes tasks"],
];

export function Tokens() {
  const [all, setAll] = useState<Token[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [made, setMade] = useState<Token | null>(null);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const read = () => listTokens().then((t) => { setAll(t); setError(null); }, setError);
  useEffect(() => { void read(); }, []);
  return (
    <main>
      <h1>Tokens</h1>
      <Problem error={error} />
      <Needs role="admin"><Create onMade={(t) => { setMade(t); void read(); }} /></Needs>
      {made ? <section class="card made" role="status"><p>The token of <bdi>{plain(made.name)}</bdi>. It is never shown again:</p><pre>{made.token}</pre>
        <button type="button" onClick={() => void navigator.clipboard?.writeText(made.token ?? "")}>Copy</button> <button type="button" onClick={() => setMade(null)}>Done</button></section> : null}
      {(all ?? []).length > 0 ? (
        <div class="scroll" tabIndex={0} aria-label="Tokens">
          <table class="tokens">
            <thead><tr><th>Name</th><th>Role</th><th>Namespace</th><th>Queues</th><th>Made</th><th>Expires</th><th>What to do</th></tr></thead>
            <tbody>{(all ?? []).map((t) => (
              <tr key={t.id}><td><bdi>{plain(t.name)}</bdi></td><td>{t.role}</td><td>{t.namespace === "*" ? "all" : t.namespace}</td><td>{plain((t.queues ?? []).join(", "))}</td>
                <td><Time at={t.createdAt} ago /></td><td>{t.expiresAt ? <Time at={t.expiresAt} ago /> : "never"}</td>
                <td><button type="button" class="danger" onClick={() => setRevoked(t)}>Revoke</button> <Link to={`/audit?actor=${encodeURIComponent(t.name)}`}>Activity</Link></td></tr>
            ))}</tbody>
          </table>
        </div>
      ) : all ? <p class="empty">There are no tokens yet.</p> : null}
      {revoked ? (
        <Dialog title={`Revoke ${plain(revoked.name)}`} onClose={() => setRevoked(null)}>
          <form method="dialog" onSubmit={() => { void revokeToken(revoked.id).then(read, setError); }}>
            <p>Whoever shows it is refused from now on. This cannot be undone.</p>
            <div class="menu"><button type="button" onClick={() => setRevoked(null)}>Back</button><button class="danger">Revoke token</button></div>
          </form>
        </Dialog>
      ) : null}
    </main>
  );
}

function Create({ onMade }: { onMade: (t: Token) => void }) {
  const c = caller.value;
  const [name, setName] = useState("");
  const [role, setRole] = useState("read");
  const [namespace, setNamespace] = useState(c?.namespace ?? "");
  const [queues, setQueues] = useState("");
  const [expires, setExpires] = useState("");
  const [error, setError] = useState<unknown>(null);
  const choices = (c?.namespaces ?? []).length > 1 ? [...(c?.namespaces ?? []), "*"] : [];
  const submit = () => {
    const list = queues.split(",").map((q) => q.trim()).filter(Boolean);
    createToken({ name, role, ...(choices.length > 0 ? { namespace } : {}), ...(role === "worker" && list.length > 0 ? { queues: list } : {}), ...(expires ? { expiresIn: expires } : {}) })
      .then((t) => { setError(null); setName(""); onMade(t); }, setError);
  };
  return (
    <form class="card line" onSubmit={(e) => { e.preventDefault(); submit(); }}>
      <label>Name <input name="name" required maxLength={100} value={name} placeholder="ada" onInput={(e) => setName(e.currentTarget.value)} /></label>
      <label>Role <select name="role" value={role} onChange={(e) => setRole(e.currentTarget.value)}>{roles.map(([r, says]) => <option key={r} value={r}>{r}: {says}</option>)}</select></label>
      {choices.length > 0 ? <label>Namespace <select value={namespace} onChange={(e) => setNamespace(e.currentTarget.value)}>{choices.map((n) => <option key={n} value={n}>{n === "*" ? "all" : n}</option>)}</select></label> : null}
      {role === "worker" ? <label>Queues <input value={queues} placeholder="mail, or all" onInput={(e) => setQueues(e.currentTarget.value)} /></label> : null}
      <label>Expires in <input value={expires} placeholder="never, or 30d" onInput={(e) => setExpires(e.currentTarget.value.trim())} /></label>
      <button type="submit" class="main">Create token</button>
      <Problem error={error} />
    </form>
  );
}

export function Audit({ search }: { search: string }) {
  const [entries, setEntries] = useState<Audited[] | null>(null);
  const [next, setNext] = useState("");
  const [error, setError] = useState<unknown>(null);
  const actor = new URLSearchParams(search).get("actor") ?? "";
  const read = (cursor: string, before: Audited[]) => listAudit(actor, cursor).then((p) => {
    setEntries([...before, ...(p.entries ?? [])]);
    setNext(p.next ?? "");
    setError(null);
  }, setError);
  useEffect(() => { void read("", []); }, [actor]);
  return (
    <main>
      <h1>Audit log</h1>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <label>Actor <input type="search" value={actor} placeholder="ada, or local" onChange={(e) => { const a = e.currentTarget.value.trim(); go(a ? `/audit?actor=${encodeURIComponent(a)}` : "/audit", true); }} /></label>
        <button type="button" onClick={() => void read("", [])}>Refresh</button>
      </form>
      <Problem error={error} />
      {!entries ? null : entries.length === 0 ? <p class="empty">{actor ? `No entries for “${actor}”.` : "Nobody has changed anything yet. It has what changes something, and what was refused."}</p> : (
        <div class="scroll" tabIndex={0} aria-label="Audit log">
          <table class="audit">
            <thead><tr><th>When</th><th>Who</th><th>What</th><th>Answer</th><th>From</th></tr></thead>
            <tbody>{entries.map((e) => (
              <tr key={e.id} class={e.status >= 400 ? "bad" : ""}><td><Time at={e.at} /></td><td><bdi>{plain(e.actor)}</bdi></td><td><code>{e.method} {plain(e.path)}</code></td>
                <td class="num">{e.status === 403 ? "403 refused" : e.status}</td><td><bdi>{plain(e.from ?? "")}</bdi></td></tr>
            ))}</tbody>
          </table>
        </div>
      )}
      {next ? <button type="button" onClick={() => void read(next, entries ?? [])}>Show older ones</button> : null}
    </main>
  );
}
