/** What sfumato refuses. `code` is for programs, the message for people; no message shows a value. */
export class SfumatoError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.name = "SfumatoError";
    this.code = code;
  }
}

/** Refuse unless a rule holds. */
export function require(holds, code, message) {
  if (!holds) throw new SfumatoError(code, message);
}

/** Refuse a device program that breaks a rule. */
export function rule(holds, broken) {
  require(holds, "program", `This device program is damaged: ${broken}. Get it again.`);
}
