// A map of blocks, one pixel each, which the style sheet makes larger: each frame draws those that
// changed since the last one, and no others.

/** The blocks of one pass on a grid; what is drawn is decided by `paint(block)`. */
export class BlockMap {
  constructor(context, { rows, length, order, total, paint }) {
    this.context = context;
    Object.assign(this, { rows, length, order, total, paint });
    this.done = 0;
    this.blocks = new Array(total).fill(null); // by the order of work; null: not finished
    this.changed = new Set(this.blocks.keys());
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
    for (const step of this.changed) {
      const place = this.order[step] ?? step;
      this.context.fillStyle = this.paint(this.blocks[step]);
      this.context.fillRect(place % this.length, Math.floor(place / this.length), 1, 1);
    }
    this.changed.clear();
    return drawn;
  }

  /** Give the block at a place as `[number in the order of work, what is known]`. */
  at(row, column) {
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
