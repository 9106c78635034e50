// Sets the theme that was chosen before anything is drawn; as in the system where none was.
try {
  const chosen = localStorage.getItem("halocline-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden: the system's theme will do.
}
