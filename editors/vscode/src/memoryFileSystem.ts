// An in-memory file system for the sides of diffs and for reviews that the user edits.

import {
  type Disposable,
  type Event as EditorEvent,
  EventEmitter,
  type FileChangeEvent,
  FileChangeType,
  type FileStat,
  FileSystemError,
  type FileSystemProvider,
  FileType,
  type Uri,
} from "vscode";

export class MemoryFileSystem implements FileSystemProvider {
  readonly #files = new Map<string, { text: Uint8Array; at: number }>();
  readonly #changeEmitter = new EventEmitter<FileChangeEvent[]>();
  readonly onDidChangeFile: EditorEvent<FileChangeEvent[]> = this.#changeEmitter.event;

  putText(uri: Uri, text: string): void {
    this.#files.set(uri.toString(), { text: Buffer.from(text), at: Date.now() });
    this.#changeEmitter.fire([{ type: FileChangeType.Changed, uri }]);
  }

  /** Firing the event makes VS Code drop the files too, for example from Quick Open. */
  removeFiles(...uris: Uri[]): void {
    for (const uri of uris) this.delete(uri);
    this.#changeEmitter.fire(uris.map((uri) => ({ type: FileChangeType.Deleted, uri })));
  }

  readText(uri: Uri): string {
    return Buffer.from(this.readFile(uri)).toString();
  }

  watch(): Disposable {
    return { dispose() {} };
  }

  stat(uri: Uri): FileStat {
    const file = this.#getFile(uri);
    return { type: FileType.File, ctime: file.at, mtime: file.at, size: file.text.length };
  }

  readFile(uri: Uri): Uint8Array {
    return this.#getFile(uri).text;
  }

  /** Also accepts files from before a window reload, because an open editor may save them. */
  writeFile(uri: Uri, text: Uint8Array): void {
    this.#files.set(uri.toString(), { text, at: Date.now() });
  }

  delete(uri: Uri): void {
    this.#files.delete(uri.toString());
  }

  readDirectory(): [string, FileType][] {
    return [];
  }

  createDirectory(uri: Uri): void {
    throw FileSystemError.NoPermissions(uri);
  }

  rename(uri: Uri): void {
    throw FileSystemError.NoPermissions(uri);
  }

  #getFile(uri: Uri): { text: Uint8Array; at: number } {
    const file = this.#files.get(uri.toString());
    if (!file) throw FileSystemError.FileNotFound(uri);
    return file;
  }
}
