// The server's process: started, listened to, and surely ended. It knows nothing of what is said over its pipes.

import { type ChildProcess, spawn } from "node:child_process";
import { reveal } from "./format";

/** So much of what it said last is kept. */
const LAST_WORDS = 2000;
const LAST_LINES = 6;

export class ServerProcess {
  readonly child: ChildProcess;
  /** How it ended, for people. It never fails. */
  readonly ended: Promise<string>;
  #said = "";
  #over = false;

  constructor(command: string, env: NodeJS.ProcessEnv, cwd: string | undefined) {
    this.child = spawn(command, [], { env, cwd, stdio: "pipe" });
    this.child.stderr?.on("data", (piece: Buffer) => {
      this.#said = (this.#said + piece.toString()).slice(-LAST_WORDS);
    });
    // A pipe to a process that has ended breaks; its end is reported by itself.
    for (const pipe of [this.child.stdin, this.child.stdout, this.child.stderr]) pipe?.on("error", () => {});
    // An editor that ends without a word leaves nothing behind.
    const kill = () => this.kill();
    process.once("exit", kill);
    this.ended = new Promise((tell) => {
      const over = (how: string) => {
        this.#over = true;
        process.removeListener("exit", kill);
        tell(how);
      };
      this.child.once("error", (error) => over(`it cannot be started: ${error.message}`));
      // Closed, not only exited: then all that it said has come.
      this.child.once("close", (code, signal) => over(signal === null ? `exit code ${code}` : `signal ${signal}`));
    });
  }

  /** The end of what it wrote to stderr, with what hides written out. */
  get lastWords(): string {
    const lines = reveal(this.#said)
      .split("\n")
      .filter((line) => line.trim() !== "");
    return lines.slice(-LAST_LINES).join("\n");
  }

  kill(): void {
    if (!this.#over) this.child.kill("SIGKILL");
  }

  /** Waits for its end, and kills it after this time. */
  async end(within: number): Promise<void> {
    const timer = setTimeout(() => this.kill(), within);
    await this.ended.finally(() => clearTimeout(timer));
  }
}
