/** Time as a client sees it; another one is for tests. */
export interface Clock {
  /** Milliseconds of a clock that only rises. */
  now(): number;
  /** Milliseconds since 1970, for hints that are dates and tickets that expire. */
  wall(): number;
  /** Calls back once, later; the returned function calls that off. `background` keeps no process alive. */
  after(ms: number, then: () => void, background?: boolean): () => void;
}

/** The longest that a timer of JavaScript can wait; a longer one fires at once. */
const longestTimer = 2 ** 31 - 1;

export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, then, background = false) {
    const timer: unknown = setTimeout(then, Math.min(Math.max(ms, 0), longestTimer));
    if (background) (timer as { unref?: () => void }).unref?.(); // where timers hold a process: Node
    return () => {
      clearTimeout(timer as number);
    };
  },
};

/** Waits, and ends at once with the signal's reason when that aborts. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal, background = false): Promise<void> {
  const slept = new Promise<void>((resolve, reject) => {
    const callOff = clock.after(ms, done, background);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    function done(): void {
      signal?.removeEventListener("abort", stop);
      resolve();
    }
    function stop(): void {
      callOff();
      signal?.removeEventListener("abort", stop);
      reject(signal?.reason as Error);
    }
  });
  return slept;
}

/** What a promise comes to, or the signal's reason as soon as that aborts; the promise goes on then. */
export function orAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  return new Promise<T>((resolve, reject) => {
    const stop = (): void => {
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    promise.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", stop);
    });
  });
}

/** Aborts a controller when a signal does, until the returned function is called. */
export function passOn(signal: AbortSignal | undefined, to: AbortController): () => void {
  const pass = (): void => {
    to.abort(signal?.reason);
  };
  signal?.addEventListener("abort", pass);
  if (signal?.aborted) pass();
  return () => {
    signal?.removeEventListener("abort", pass);
  };
}
