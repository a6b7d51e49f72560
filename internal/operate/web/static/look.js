// Applies the chosen theme and height of rows before anything is drawn. The script of each page, page.js, changes them.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("rows") === "compact") document.documentElement.dataset.rows = "compact";
} catch {} // storage is off: as the system has it
