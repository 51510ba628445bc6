// Owns the server process: start, stderr, and exit. It does not interpret the messages on its pipes.

import { type ChildProcess, spawn } from "node:child_process";
import { revealHidden } from "./format";

const MAX_STDERR_CHARS = 2000;
const MAX_STDERR_LINES = 6;
/** Time for the last output to arrive after the exit. */
const OUTPUT_TIMEOUT_MS = 500;

export class ServerProcess {
  readonly child: ChildProcess;
  /** Resolves to a description of the exit. It never rejects. */
  readonly exited: Promise<string>;
  #stderr = "";
  #hasExited = false;

  constructor(command: string, env: NodeJS.ProcessEnv, cwd: string | undefined) {
    this.child = spawn(command, [], { env, cwd, stdio: "pipe" });
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-MAX_STDERR_CHARS);
    });
    // Ignore broken pipes, because the exit is reported separately.
    for (const pipe of [this.child.stdin, this.child.stdout, this.child.stderr]) pipe?.on("error", () => {});
    // Kill the server if the editor exits without cleanup.
    const killOnExit = () => this.kill();
    process.once("exit", killOnExit);
    this.exited = new Promise((resolve) => {
      const resolveExit = (description: string) => {
        this.#hasExited = true;
        process.removeListener("exit", killOnExit);
        resolve(description);
      };
      this.child.once("error", (error) => resolveExit(`it cannot be started: ${error.message}`));
      this.child.once("exit", (code, signal) => {
        const description = signal === null ? `exit code ${code}` : `signal ${signal}`;
        // `close` fires after all output has arrived. It does not fire while another process holds the pipes.
        const timer = setTimeout(() => resolveExit(description), OUTPUT_TIMEOUT_MS);
        this.child.once("close", () => {
          clearTimeout(timer);
          resolveExit(description);
        });
      });
    });
  }

  /** The end of stderr, with hidden characters revealed. */
  get stderrTail(): string {
    const lines = revealHidden(this.#stderr)
      .split("\n")
      .filter((line) => line.trim() !== "");
    return lines.slice(-MAX_STDERR_LINES).join("\n");
  }

  kill(): void {
    if (!this.#hasExited) this.child.kill("SIGKILL");
  }

  /** Waits for the exit, and kills the process after `timeoutMs`. */
  async waitForExit(timeoutMs: number): Promise<void> {
    const timer = setTimeout(() => this.kill(), timeoutMs);
    await this.exited.finally(() => clearTimeout(timer));
  }
}
