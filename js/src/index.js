export { Client } from "./client.js";
export { SfumatoError } from "./errors.js";
export { Program, canonical, digestOf } from "./program.js";
export { BrowserStore, MemoryStore } from "./store.js";
export { Layout, MEDIA_TYPE, packBatch, readBatch } from "./wire.js";
