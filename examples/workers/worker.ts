// A worker for Pawl in TypeScript, without dependencies: node worker.ts [SERVER] [QUEUE]   (Node.js 22.18 or newer)
//
// It executes up to four tasks at once. A heartbeat every second tells that the work goes on, and hears when it is to
// stop. On SIGTERM it takes no more tasks and finishes those that it has. A server that asks for a token gets that of
// the variable PAWL_TOKEN.

type Left = { deadline?: string; limit?: string; heartbeat?: string };
type Task = { task: string; run: string; step: string; type: string; attempt: number; input: any; details?: any; left: Left };
type Answer = { stop?: string; paused?: boolean; left?: Left };

const server = process.argv[2] ?? process.env.PAWL_SERVER ?? "http://127.0.0.1:7295";
const queue = process.argv[3] ?? "reports";
const slots = 4;
const headers: Record<string, string> = { "Content-Type": "application/json" };
if (process.env.PAWL_TOKEN) headers.Authorization = `Bearer ${process.env.PAWL_TOKEN.trim()}`;

let stopping = false;
process.on("SIGTERM", () => (stopping = true));

class Refused extends Error {}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends a request, again and again while the server does not answer or cannot take it now. */
async function post(path: string, body: unknown): Promise<any> {
  for (;;) {
    try {
      const answer = await fetch(server + "/api/v1" + path, {
        method: "POST", headers, body: JSON.stringify(body),
      });
      const text = await answer.text();
      if (answer.ok) return text ? JSON.parse(text) : {};
      if (answer.status < 500 && answer.status !== 429) throw new Refused(JSON.parse(text).detail);
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    if (stopping && path === "/tasks/poll") return { tasks: [] };
    await pause(1000);
  }
}

/** The work. It begins where the attempt before it has left off. */
async function render(task: Task, progress: { page: number }, signal: AbortSignal) {
  for (progress.page = task.details?.page ?? 0; progress.page < task.input.pages; progress.page++) {
    signal.throwIfAborted();
    await pause(200);
  }
  return { rendered: task.input.pages };
}

const functions: Record<string, typeof render> = { Render: render };

async function execute(task: Task) {
  const path = `/tasks/${task.task}`;
  const progress = { page: 0 };
  const stop = new AbortController();
  const beat = async () => {
    try {
      const answer: Answer = await post(path + "/heartbeat", { details: progress });
      if (answer.stop) stop.abort(answer.stop);
    } catch (error) {
      stop.abort(error); // the attempt has ended
    }
  };
  const beats = setInterval(beat, 1000);
  try {
    const output = await functions[task.type](task, progress, stop.signal);
    clearInterval(beats);
    await post(path + "/complete", { output });
  } catch (error) {
    clearInterval(beats);
    try {
      if (stop.signal.aborted) {
        console.log(`stopped ${task.step} of run ${task.run}: ${stop.signal.reason}`);
        await post(path + "/stopped", {});
      } else if (error instanceof Refused) {
        throw error;
      } else {
        await post(path + "/fail", { kind: "error", type: (error as Error).name, message: (error as Error).message });
      }
    } catch (late) {
      console.log(`a report came too late: ${(late as Error).message}`);
    }
  }
}

console.log(`executing tasks of ${queue}`);
const running = new Set<Promise<void>>();
while (!stopping) {
  if (running.size === slots) {
    await Promise.race(running);
    continue;
  }
  const { tasks } = await post("/tasks/poll", {
    queue, worker: `node ${process.pid}`, types: Object.keys(functions), max: slots - running.size, wait: "5s",
  });
  for (const task of tasks) {
    const done: Promise<void> = execute(task).finally(() => running.delete(done));
    running.add(done);
  }
}
await Promise.all(running);
