"use strict";
(() => {
  const escapes = JSON.parse(document.getElementById("escapes").textContent);
  const status = document.getElementById("status");
  const clean = (text) => text.trim().split(/\s+/).join(" ");
  const startsNumber = /^<?[-+\u2212]?\.?\d/;
  const number = (text) => parseFloat(text.replace(/^</, "").replace("\u2212", "-").replace(/,/g, ""));

  /* The table as it stands: caption and titles, then rows in their present order; which of their cells are bold. */
  const contents = (table) => ({
    caption: clean(table.caption.textContent),
    bold: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.querySelector("strong") !== null)),
    columns: [...table.tHead.rows[0].cells].map((cell) => clean(cell.textContent)),
    rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => clean(cell.textContent))),
  });
  const isNumeric = (rows, column) => {
    const cells = rows.map((row) => row[column]).filter((text) => text !== "");
    return cells.length > 0 && cells.every((text) => startsNumber.test(text));
  };

  /* The same rules as the library's own writers; the letters to escape come from there. */
  const escaped = (text, kind) => [...text].map((letter) => (Object.hasOwn(escapes[kind], letter) ? escapes[kind][letter] : letter)).join("");
  const field = (text) => {
    const safe = /^[=+\-@]/.test(text) && !/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text) ? "'" + text : text;
    return /[,"]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  const writers = {
    LaTeX: ({ caption, columns, rows, bold }) => {
      const cell = (text, marked) => (marked ? "\\textbf{" + escaped(text, "latex") + "}" : escaped(text, "latex"));
      const line = (cells, row = -1) => cells.map((text, column) => cell(text, row >= 0 && bold[row][column])).join(" & ") + " \\\\";
      const alignment = columns.map((_, column) => (isNumeric(rows, column) ? "r" : "l")).join("");
      const body = ["\\toprule", line(columns), "\\midrule", ...rows.map(line), "\\bottomrule"];
      const tabular = ["\\begin{tabular}{" + alignment + "}", ...body, "\\end{tabular}"];
      return ["\\begin{table}", "\\centering", "\\caption{" + escaped(caption, "latex") + "}", ...tabular, "\\end{table}"].join("\n");
    },
    CSV: ({ columns, rows }) => [columns, ...rows].map((cells) => cells.map(field).join(",")).join("\n"),
    Markdown: ({ columns, rows, bold }) => {
      const cell = (text, marked) => (marked ? "**" + escaped(text, "markdown") + "**" : escaped(text, "markdown"));
      const line = (cells, row = -1) => "| " + cells.map((text, column) => cell(text, row >= 0 && bold[row][column])).join(" | ") + " |";
      const rule = "| " + columns.map((_, column) => (isNumeric(rows, column) ? "---:" : "---")).join(" | ") + " |";
      return [line(columns), rule, ...rows.map(line)].join("\n");
    },
  };

  let timer = 0;
  const say = (text) => {
    status.textContent = text;
    clearTimeout(timer);
    timer = setTimeout(() => { status.textContent = ""; }, 4000);
  };
  /* Where a browser refuses the clipboard, the text is shown, selected, to be copied by hand. */
  const byHand = (text) => {
    const dialog = document.createElement("dialog");
    const area = document.createElement("textarea");
    const close = document.createElement("button");
    area.id = "by-hand";
    area.value = text;
    area.readOnly = true;
    area.setAttribute("aria-label", "Text to copy");
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    dialog.append(area, close);
    document.body.append(dialog);
    dialog.showModal();
    area.select();
  };
  const copy = async (table, format) => {
    const text = writers[format](contents(table));
    try {
      await navigator.clipboard.writeText(text);
      say("Copied as " + format);
    } catch {
      byHand(text);
    }
  };

  const sort = (table, column, header) => {
    const body = table.tBodies[0];
    const down = header.getAttribute("aria-sort") === "ascending";
    const numeric = isNumeric(contents(table).rows, column);
    const rows = [...body.rows].map((row) => ({ row, text: clean(row.cells[column].textContent) }));
    const sign = down ? -1 : 1;
    rows.sort((a, b) => {
      if (a.text === "" || b.text === "") return (a.text === "") - (b.text === ""); /* nothing goes last, either way */
      return sign * (numeric ? number(a.text) - number(b.text) : a.text.localeCompare(b.text, undefined, { numeric: true }));
    });
    body.append(...rows.map((each) => each.row));
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
  };

  for (const table of document.querySelectorAll(".table table")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      if (header.textContent === "") return;
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, column, header));
      header.append(button);
      header.setAttribute("aria-sort", "none");
    });
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "Copy table: " + clean(table.caption.textContent));
    tools.append("Copy as");
    for (const format of Object.keys(writers)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = format;
      button.addEventListener("click", () => copy(table, format));
      tools.append(button);
    }
    table.closest(".table").prepend(tools);
  }
})();
