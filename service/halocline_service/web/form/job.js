// What its owner calls a job: a name and labels.

import { el } from "../core/dom.js";
import { textControl } from "./controls.js";

/** Make the fields for a job's name and labels. */
export function jobFields(place) {
  const name = textControl("job-name", { placeholder: "what you call it" });
  const labels = textControl("labels", { placeholder: "words, divided by commas" });
  place.append(
    ...[
      ["Name of the job", name],
      ["Labels", labels],
    ].map(([title, control]) =>
      el(
        "div",
        { class: "field" },
        el("label", { for: control.input.id }, title),
        control.element,
      ),
    ),
  );
  return {
    /** Give the members of a request. */
    read() {
      const words = (labels.read() ?? "").split(",").map((word) => word.trim());
      const kept = words.filter(Boolean);
      return {
        ...(name.read() ? { job_name: name.read() } : {}),
        ...(kept.length > 0 ? { labels: kept } : {}),
      };
    },
    write(info) {
      name.write(info.job_name ?? info.name);
      labels.write((info.labels ?? []).join(", "));
    },
  };
}
