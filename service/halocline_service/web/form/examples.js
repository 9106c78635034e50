// Requests to start from. What names variables and dimensions is chosen afterwards.

const SMOOTH = `\
def smooth(t: Field[np.float64], smoothed: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        around = t[-1, 0, 0] + t[1, 0, 0] + t[0, -1, 0] + t[0, 1, 0]
        smoothed = t + strength * (around - 4.0 * t)
`;
const MASKED = `\
def smooth(t: Field[np.float64], smoothed: Field[np.float64], strength: float):
    with computation(PARALLEL), interval(...):
        # NaN is land: it is not equal to itself, and neighbours on land do not count.
        west = t[-1, 0, 0] if t[-1, 0, 0] == t[-1, 0, 0] else t
        east = t[1, 0, 0] if t[1, 0, 0] == t[1, 0, 0] else t
        south = t[0, -1, 0] if t[0, -1, 0] == t[0, -1, 0] else t
        north = t[0, 1, 0] if t[0, 1, 0] == t[0, 1, 0] else t
        smoothed = t + strength * (west + east + south + north - 4.0 * t)
`;
const GRADIENT = `\
def gradient(t: Field[np.float64], dt_dx: Field[np.float64], dt_dy: Field[np.float64], dx: float, dy: float):
    with computation(PARALLEL), interval(...):
        dt_dx = (t[1, 0, 0] - t[-1, 0, 0]) / (2.0 * dx)
        dt_dy = (t[0, 1, 0] - t[0, -1, 0]) / (2.0 * dy)
`;
const COLUMN_SUM = `\
def integrate(t: Field[np.float64], total: Field[IJ, np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            total = t
        with interval(1, None):
            total = total + t
`;

/** Examples by process: a title and the inputs that it sets. */
export const EXAMPLES = {
  stencil: [
    { title: "Smoothing", inputs: { program: SMOOTH, scalars: { strength: 0.2 } } },
    {
      title: "Smoothing with land, 200 steps",
      inputs: {
        program: MASKED,
        scalars: { strength: 0.2 },
        steps: 200,
        feedback: { smoothed: "t" },
      },
    },
    { title: "Gradient", inputs: { program: GRADIENT, scalars: { dx: 1000, dy: 1000 } } },
    { title: "Sum over levels", inputs: { program: COLUMN_SUM } },
  ],
  column: [
    {
      title: "Vertical diffusion",
      inputs: {
        expression:
          "DivergenceF2C()(kappa * GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(t))",
        fields: { t: "" },
        scalars: { kappa: 1e-4 },
        name: "tendency",
      },
    },
    {
      title: "Values on faces",
      inputs: { expression: "InterpolateC2F()(t)", fields: { t: "" }, name: "on_faces" },
    },
  ],
  echo: [{ title: "Two words", inputs: { string: "Hello, Halocline" } }],
};

/** Give an example's program the type of the data: that of its largest variable. */
export function withType(inputs, dataset) {
  const data = (dataset?.variables ?? []).filter(
    ({ coordinate, dtype }) => !coordinate && dtype.startsWith("float"),
  );
  const largest = Math.max(...data.map(({ bytes }) => bytes));
  const type = data.find(({ bytes }) => bytes === largest)?.dtype;
  if (!type || !inputs.program) return inputs;
  return { ...inputs, program: inputs.program.replaceAll("np.float64", `np.${type}`) };
}
