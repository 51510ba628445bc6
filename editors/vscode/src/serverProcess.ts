// The server's process: started, listened to, and surely ended. It knows nothing of what is said over its pipes.

import { type ChildProcess, spawn } from "node:child_process";
import { revealHidden } from "./format";

/** So much of what it said last is kept. */
const MAX_STDERR_CHARS = 2000;
const MAX_STDERR_LINES = 6;

export class ServerProcess {
  readonly child: ChildProcess;
  /** How it ended, for people. It never fails. */
  readonly exited: Promise<string>;
  #stderr = "";
  #hasExited = false;

  constructor(command: string, env: NodeJS.ProcessEnv, cwd: string | undefined) {
    this.child = spawn(command, [], { env, cwd, stdio: "pipe" });
    this.child.stderr?.on("data", (piece: Buffer) => {
      this.#stderr = (this.#stderr + piece.toString()).slice(-MAX_STDERR_CHARS);
    });
    // A pipe to a process that has ended breaks; its end is reported by itself.
    for (const pipe of [this.child.stdin, this.child.stdout, this.child.stderr]) pipe?.on("error", () => {});
    // An editor that ends without a word leaves nothing behind.
    const killOnExit = () => this.kill();
    process.once("exit", killOnExit);
    this.exited = new Promise((tell) => {
      const resolveExit = (how: string) => {
        this.#hasExited = true;
        process.removeListener("exit", killOnExit);
        tell(how);
      };
      this.child.once("error", (error) => resolveExit(`it cannot be started: ${error.message}`));
      // Closed, not only exited: then all that it said has come.
      this.child.once("close", (code, signal) =>
        resolveExit(signal === null ? `exit code ${code}` : `signal ${signal}`),
      );
    });
  }

  /** The end of what it wrote to stderr, with what hides written out. */
  get stderrTail(): string {
    const lines = revealHidden(this.#stderr)
      .split("\n")
      .filter((line) => line.trim() !== "");
    return lines.slice(-MAX_STDERR_LINES).join("\n");
  }

  kill(): void {
    if (!this.#hasExited) this.child.kill("SIGKILL");
  }

  /** Waits for its end, and kills it after this time. */
  async waitForExit(within: number): Promise<void> {
    const timer = setTimeout(() => this.kill(), within);
    await this.exited.finally(() => clearTimeout(timer));
  }
}
