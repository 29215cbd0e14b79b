// What attempts of a step have left: the files that they kept, and the tests that they ran.
import { useEffect, useState } from "preact/hooks";
import { plain } from "./ansi.ts";
import { downloadArtifact, listArtifacts, type Artifact, type Step } from "./api.ts";
import { shows } from "./caller.ts";
import { Problem } from "./parts.tsx";
import { bytes, testsOf } from "./results.ts";

// Files are those of the step's attempts, the newest attempt first. One that failed has files, too.
export function Files({ run, s }: { run: string; s: Step }) {
  const [files, setFiles] = useState<Artifact[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const done = (s.attempts ?? []).filter((a) => a.endedAt).length;
  useEffect(() => { listArtifacts(run).then((all) => setFiles(all.filter((f) => f.step === s.step)), setError); }, [run, s.step, done]);
  if (error) return <Problem error={error} />;
  if (!files) return <p class="dim">…</p>;
  if (files.length === 0) return <p class="dim">It has kept none.</p>;
  const several = files.some((f) => f.attempt !== files[0]?.attempt);
  return (
    <>
      <div class="scroll" tabIndex={0} aria-label="Files">
        <table class="files">
          <thead><tr><th>File</th><th class="num">Size</th>{several ? <th class="num">Attempt</th> : null}<th><span class="unseen">Actions</span></th></tr></thead>
          <tbody>{files.toSorted((a, b) => b.attempt - a.attempt).map((f) => (
            <tr key={`${f.attempt} ${f.path}`}>
              <td><bdi title={`SHA-256 ${f.sha256}`}>{plain(f.path)}</bdi></td>
              <td class="num">{bytes(f.size)}</td>
              {several ? <td class="num">{f.attempt}</td> : null}
              <td><Download run={run} f={f} onError={setError} /></td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </>
  );
}

// Download is a link. A page that shows a token fetches the content by itself, since a link cannot show one.
function Download({ run, f, onError }: { run: string; f: Artifact; onError: (e: unknown) => void }) {
  const click = (e: MouseEvent) => {
    if (!shows()) return;
    e.preventDefault();
    downloadArtifact(run, f).catch(onError);
  };
  return <a href={`/api/v1/runs/${encodeURIComponent(run)}/artifacts/${f.sha256}`} download={f.path.split("/").at(-1)} aria-label={`Download ${f.path}`} onClick={click}>Download</a>;
}

// Tests are the results of the last attempt that has some.
export function Tests({ s }: { s: Step }) {
  const t = testsOf(s);
  if (!t) return null;
  const failures = t.failures ?? [];
  return (
    <>
      <p>{t.passed} of {t.total} passed{t.failed > 0 ? <>, <b class="bad">{t.failed} failed</b></> : null}{t.skipped > 0 ? `, ${t.skipped} skipped` : ""}.</p>
      {failures.length > 0 ? (
        <div class="scroll" tabIndex={0} aria-label="Tests that failed">
          <table class="tests">
            <thead><tr><th>Test that failed</th><th>Why</th></tr></thead>
            <tbody>{failures.map((f, i) => (
              <tr key={i}>
                <td><bdi>{plain(f.name)}</bdi><div class="dim"><bdi>{plain([f.suite, f.file ? `${f.file}${f.line ? `:${f.line}` : ""}` : ""].filter(Boolean).join(" · "))}</bdi></div></td>
                <td dir="auto">{plain(f.message ?? "")}</td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      ) : null}
      {t.failed > failures.length ? <p class="dim">{t.failed - failures.length} more have failed.</p> : null}
    </>
  );
}
