import { Worker } from 'node:worker_threads'

/** One task for a worker. */
export interface Job {
  readonly tool: string
  readonly group: 'baseline' | 'correct' | 'faulty'
  readonly id: string
}

/**
 * Runs the jobs in worker threads, and calls back with what each one posts. A worker that fails or takes too long is
 * replaced, and its job yields the reason instead.
 */
export async function runInWorkers<T>(
  file: URL,
  jobs: readonly Job[],
  { workers, timeoutMs, data }: { workers: number; timeoutMs: number; data: unknown },
  onDone: (job: Job, result: T | { problem: string }) => void,
): Promise<void> {
  const waiting = [...jobs]
  async function work(): Promise<void> {
    let worker: Worker | undefined
    for (let job = waiting.shift(); job; job = waiting.shift()) {
      worker ??= new Worker(file, { workerData: data })
      const result = await runJob<T>(worker, job, timeoutMs)
      if (typeof result === 'object' && result !== null && 'crashed' in result) {
        await worker.terminate()
        worker = undefined
        onDone(job, { problem: result.crashed })
      } else onDone(job, result as T)
    }
    await worker?.terminate()
  }
  await Promise.all(Array.from({ length: workers }, work))
}

function runJob<T>(worker: Worker, job: Job, timeoutMs: number): Promise<T | { crashed: string }> {
  return new Promise((resolve) => {
    const settle = (result: T | { crashed: string }) => {
      clearTimeout(timer)
      for (const [event, listener] of Object.entries(listeners)) worker.off(event, listener)
      resolve(result)
    }
    const listeners = {
      message: settle,
      error: (cause: unknown) => settle({ crashed: `${cause}` }),
      exit: (code: number) => settle({ crashed: `the worker ended with ${code}` }),
    }
    const timer = setTimeout(() => settle({ crashed: `no result after ${timeoutMs / 1000} s` }), timeoutMs)
    for (const [event, listener] of Object.entries(listeners)) worker.on(event, listener)
    worker.postMessage(job)
  })
}
