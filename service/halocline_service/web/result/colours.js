// Colour scales, mixed in OKLab so that equal steps of a value look like equal steps.

const ENDS = {
  sequential: [
    [0.22, 0.09, 285],
    [0.42, 0.12, 255],
    [0.6, 0.11, 195],
    [0.78, 0.15, 140],
    [0.95, 0.13, 105],
  ],
  diverging: [
    [0.35, 0.13, 258],
    [0.62, 0.12, 250],
    [0.96, 0.005, 90],
    [0.65, 0.15, 35],
    [0.38, 0.14, 25],
  ],
  grey: [
    [0.12, 0, 0],
    [0.97, 0, 0],
  ],
};

export const SCALES = { sequential: "blue to yellow", diverging: "blue, white, red", grey: "grey" };

const made = new Map();

/** Give 256 colours, as `[red, green, blue]` each. */
export function scaleOf(name) {
  if (!made.has(name)) {
    const stops = ENDS[name].map(lab);
    const mix = (share) => {
      const at = share * (stops.length - 1);
      const low = Math.min(stops.length - 2, Math.floor(at));
      return stops[low].map((part, index) => part + (stops[low + 1][index] - part) * (at - low));
    };
    made.set(
      name,
      Array.from({ length: 256 }, (_, place) => rgb(mix(place / 255))),
    );
  }
  return made.get(name);
}

/** Give the place of a value in a scale, from 0 to 255. */
export function placeOf(value, low, high) {
  const share = high > low ? (value - low) / (high - low) : 0.5;
  return Math.max(0, Math.min(255, Math.round(share * 255)));
}

function lab([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/** From OKLab to sRGB, in whole numbers from 0 to 255. */
function rgb([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((part) => {
    const bounded = Math.max(0, Math.min(1, part));
    const encoded = bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
    return Math.round(encoded * 255);
  });
}
