// Applies the chosen theme before anything is drawn. The script of each page, page.js, changes it.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {} // storage is off: as the system has it
