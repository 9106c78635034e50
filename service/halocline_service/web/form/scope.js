// What the names of a form can be: of the dataset's variables and dimensions, and the program's
// fields. A form of a stage also knows what the stages before it make.

/** The names that there are: those of a dataset's description and of a program's facts. */
export class Scope {
  constructor({ dataset = null, program = null, made = [] } = {}) {
    Object.assign(this, { dataset, program, made });
  }

  /** Give variables as `[name, title]`, data before coordinates. */
  get variables() {
    const known = this.dataset?.variables ?? [];
    const sorted = [...known].sort((one, other) => one.coordinate - other.coordinate);
    return [
      ...this.made.map((name) => [name, `${name} (made before)`]),
      ...sorted.map(({ name, dims, dtype }) => [name, `${name} (${[...dims, dtype].join(", ")})`]),
    ];
  }

  /** Give dimensions as `[name, length]`. */
  get dimensions() {
    return Object.entries(this.dataset?.sizes ?? {});
  }

  /** Give names of a kind, as `[name, title]`. */
  named(kind) {
    const fields = this.program?.fields ?? [];
    switch (kind) {
      case "variable":
        return this.variables;
      case "dimension":
        return this.dimensions.map(([name, length]) => [name, `${name} (${length})`]);
      case "input":
        return fields.length > 0
          ? fields.filter(({ read, written }) => read && !written).map(({ name }) => [name, name])
          : this.variables;
      case "output":
        return fields.length > 0
          ? fields.filter(({ written }) => written).map(({ name }) => [name, name])
          : this.made.map((name) => [name, name]);
      default:
        return [];
    }
  }
}
