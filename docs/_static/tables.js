// Tables of the class "sortable": a box that filters rows, and headings that sort. Without scripts they are plain tables.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];

    const filter = document.createElement("input");
    filter.type = "search";
    filter.className = "table-filter";
    filter.placeholder = "Filter rows";
    filter.setAttribute("aria-label", "Filter rows");
    filter.addEventListener("input", () => {
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(filter.value.toLowerCase());
    });
    (table.closest(".table-wrapper") || table).before(filter);

    headings.forEach((heading, column) => {
      heading.tabIndex = 0;
      const sort = () => {
        const descending = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent.trim();
        const numeric = (a, b) => parseFloat(text(a)) - parseFloat(text(b));
        const compare = (a, b) => (Number.isNaN(numeric(a, b)) ? text(a).localeCompare(text(b)) : numeric(a, b));
        const rows = [...body.rows].sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
        body.append(...rows);
      };
      heading.addEventListener("click", sort);
      heading.addEventListener("keydown", (event) => event.key === "Enter" && sort());
    });
  }
});
