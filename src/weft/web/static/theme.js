// Sets the theme before the first paint: the one that the user chose, or the one of the system.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("weft-theme"); } catch { /* storage is off */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
