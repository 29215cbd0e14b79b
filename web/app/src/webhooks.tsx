// Webhooks: where events are sent, how each message went, and what one can do about it.
import { useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { useAsked } from "./asked.ts";
import type { Delivery, Webhook } from "./api.ts";
import { changeWebhook, getDelivery, listDeliveries, listWebhooks, replayDelivery, rotateSecret, testWebhook } from "./api.ts";
import { may } from "./caller.ts";
import { Dialog, Link, Problem, Time } from "./parts.tsx";
import { Needs } from "./signin.tsx";
import { toast } from "./toast.tsx";
import { length } from "./time.ts";
import { Value } from "./tree.tsx";

export function Webhooks() {
  const [got, error, again] = useAsked(() => listWebhooks(), "");
  const all = got ?? [];
  return (
    <main>
      <h1>Webhooks</h1>
      <Problem error={error} />
      {!got ? null : all.length === 0 ? <div class="empty"><p>There are no webhooks. Register one:</p><pre>pawl webhook add alerts https://example.com/hook --event run.failed --server {location.origin}</pre></div>
        : all.map((w) => <WebhookOf key={w.name} w={w} again={again} />)}
    </main>
  );
}

function WebhookOf({ w, again }: { w: Webhook; again: () => void }) {
  const [got, error, reread] = useAsked(() => listDeliveries(w.name), w.name);
  const [wrong, setWrong] = useState<unknown>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const all = got ?? [];
  const does = (what: Promise<unknown>) => { setWrong(null); what.then(() => { again(); reread(); }, setWrong); };
  const turn = (disabled: boolean) => does(changeWebhook(w.name, { disabled })
    .then(() => toast(`${w.name} is ${disabled ? "off" : "on"}`, () => does(changeWebhook(w.name, { disabled: !disabled })))));
  return (
    <section class="card">
      <h2><bdi>{plain(w.name)}</bdi> {w.disabledAt ? <span class="tag urgent">off{w.disabled ? `: ${plain(w.disabled)}` : ""}</span> : null} {w.pending > 0 ? <span class="tag">{w.pending} pending</span> : null}</h2>
      <p><bdi>{plain(w.url)}</bdi> <span class="dim">{(w.events ?? []).join(", ")}</span></p>
      <Needs role="admin"><div class="actions">
        <button type="button" onClick={() => does(testWebhook(w.name).then((d) => toast(`Test of ${w.name}: ${d.why}`)))}>Send a test</button>
        <button type="button" onClick={() => turn(!w.disabledAt)}>{w.disabledAt ? "Turn on" : "Turn off"}</button>
        <button type="button" onClick={() => does(rotateSecret(w.name).then((r) => setSecret(r.secret ?? "")))}>New secret</button>
      </div></Needs>
      {secret ? <p class="made">Its new secret, which is shown only now: <code>{secret}</code> <span class="dim">The old one signs too for a day.</span></p> : null}
      <Problem error={error ?? wrong} />
      {all.length === 0 ? <p class="dim">Nothing has been sent to it yet.</p> : (
        <div class="scroll" tabIndex={0} aria-label={`Deliveries of ${w.name}`}>
          <table>
            <thead><tr><th>Event</th><th>At</th><th>State</th><th>Attempts</th><th>Why</th><th>Run</th><th><span class="unseen">Actions</span></th></tr></thead>
            <tbody>{all.map((d) => <DeliveryOf key={d.id} d={d} again={reread} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function DeliveryOf({ d, again }: { d: Delivery; again: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const [open, setOpen] = useState<Delivery | null>(null);
  return (
    <tr>
      <td><button type="button" class="link" onClick={() => void getDelivery(d.webhook, d.id).then(setOpen, setError)}>{d.type}</button></td>
      <td><Time at={d.at} /></td><td>{d.state.replaceAll("_", " ")}</td><td class="num">{d.tried}</td>
      <td dir="auto">{plain(d.why)}{d.nextAt ? <span class="dim"> next <Time at={d.nextAt} ago /></span> : null}<Problem error={error} />{open ? <Whole d={open} onClose={() => setOpen(null)} /> : null}</td>
      <td>{d.run ? <Link to={`/run/${d.run}`}>run</Link> : null}</td>
      <td>{d.state === "failed" ? <button type="button" disabled={!may("operate")} onClick={() => void replayDelivery(d.webhook, d.id).then(again, setError)}>Redeliver</button> : null}</td>
    </tr>
  );
}

// Whole is one delivery: what was sent, and what was answered.
const Whole = ({ d, onClose }: { d: Delivery; onClose: () => void }) => (
  <Dialog title={`${d.type} to ${d.webhook}`} onClose={onClose}>
    <p>{plain(d.why)}</p>
    {(d.attempts ?? []).map((a) => (
      <p key={a.at}><Time at={a.at} precise /> {length(a.durationMs)}: {a.status ? <b>status {a.status}</b> : plain(a.failure?.message ?? "no answer")}{a.response ? <code> {plain(a.response)}</code> : null}</p>
    ))}
    <Value name="Payload" value={d.payload} />
    <form method="dialog"><div class="menu"><button>Close</button></div></form>
  </Dialog>
);
