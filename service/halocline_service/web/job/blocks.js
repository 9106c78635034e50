// A map of blocks: each frame draws those that changed since the last one, and no others.

const LARGEST = 18;

/** The blocks of one pass on a grid; what is drawn is decided by `paint(block)`. */
export class BlockMap {
  constructor(context, { rows, length, order, total, width, paint }) {
    this.context = context;
    Object.assign(this, { rows, length, order, total, paint });
    this.cell = Math.max(1, Math.min(LARGEST, Math.floor(width / length)));
    this.gap = this.cell > 3 ? 1 : 0;
    this.done = 0;
    this.blocks = new Array(total).fill(null); // by the order of work; null: not finished
    this.changed = new Set(this.blocks.keys());
  }

  get width() {
    return this.cell * this.length;
  }

  get height() {
    return this.cell * this.rows;
  }

  /** Say that so many blocks are finished; `told` is what is known of the last one of them. */
  finish(done, told = null) {
    const last = Math.min(done, this.total);
    for (; this.done < last; this.done += 1) this.#set(this.done, {});
    if (told && last > 0) this.#set(last - 1, told);
  }

  /** Have all drawn again, in other colours. */
  repaint() {
    for (const step of this.blocks.keys()) this.changed.add(step);
  }

  /** Draw what changed; gives how many blocks that were. */
  draw() {
    const drawn = this.changed.size;
    const side = this.cell - this.gap;
    for (const step of this.changed) {
      const place = this.order[step] ?? step;
      this.context.fillStyle = this.paint(this.blocks[step]);
      const [row, column] = [Math.floor(place / this.length), place % this.length];
      this.context.fillRect(column * this.cell, row * this.cell, side, side);
    }
    this.changed.clear();
    return drawn;
  }

  /** Give the block under a point as `[number in the order of work, what is known]`. */
  at(x, y) {
    const [row, column] = [Math.floor(y / this.cell), Math.floor(x / this.cell)];
    if (row < 0 || column < 0 || row >= this.rows || column >= this.length) return null;
    this.steps ??= new Map(this.order.map((place, step) => [place, step]));
    const step = this.steps.get(row * this.length + column);
    return step === undefined || step >= this.total ? null : [step, this.blocks[step]];
  }

  #set(step, told) {
    this.blocks[step] = told;
    this.changed.add(step);
  }
}
