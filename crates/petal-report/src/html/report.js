(function () {
  "use strict";
  var root = document.documentElement;
  var tip = document.getElementById("tip");
  var said = document.getElementById("said");
  root.classList.add("js");

  // Light, dark, or as the system has it; kept for the next report where the browser allows it.
  var themes = ["", "light", "dark"];
  var names = ["as the system", "light", "dark"];
  var button = document.getElementById("theme");
  function setTheme(theme) {
    if (theme) root.setAttribute("data-theme", theme);
    else root.removeAttribute("data-theme");
    button.textContent = "Theme: " + names[Math.max(themes.indexOf(theme), 0)];
  }
  function stored(value) {
    try {
      if (value === undefined) return localStorage.getItem("petal-theme") || "";
      localStorage.setItem("petal-theme", value);
    } catch (error) {
      return "";
    }
    return value;
  }
  setTheme(themes.indexOf(stored()) > 0 ? stored() : "");
  button.addEventListener("click", function () {
    var now = themes.indexOf(root.getAttribute("data-theme") || "");
    setTheme(stored(themes[(now + 1) % themes.length]) || themes[(now + 1) % themes.length]);
  });

  // What a mark stands for is a row of the chart's table.
  function lines(figure, mark) {
    var table = figure.querySelector(".values table");
    var row = table && table.tBodies[0].rows[Number(mark.getAttribute("data-row"))];
    if (!row) return [];
    var found = [];
    for (var i = 0; i < row.cells.length; i += 1) {
      var text = row.cells[i].textContent.trim();
      var name = table.tHead.rows[0].cells[i].textContent.trim();
      if (name === "+-" && found.length) {
        if (text !== "-") found[found.length - 1][1] += " \u00b1 " + text;
      } else if (text !== "") found.push([name, text]);
    }
    return found;
  }

  // A second of a heat map also shows the waterfall of its operations, where the run has one.
  function waterfall(figure, mark) {
    var divided = document.getElementById("fig-waterfall");
    if (!divided || divided === figure || !/^fig-(latency|device)-/.test(figure.id)) return [];
    build(divided);
    return lines(divided, mark).slice(1).filter(function (pair) { return pair[1] !== "-"; });
  }

  var shown = null;
  function hide() {
    tip.hidden = true;
    document.querySelectorAll(".hit.on").forEach(function (mark) { mark.classList.remove("on"); });
    shown = null;
  }
  function show(mark, x, y, aloud) {
    var figure = mark.closest("figure");
    var values = lines(figure, mark);
    if (!values.length) return;
    values = values.concat(waterfall(figure, mark));
    hide();
    shown = mark;
    mark.classList.add("on");
    // Charts over time have one axis: the same moment is marked in all of them.
    if (mark.closest("#time")) {
      document.querySelectorAll('#time .hit[data-row="' + mark.getAttribute("data-row") + '"]')
        .forEach(function (other) { other.classList.add("on"); });
    }
    tip.textContent = "";
    values.forEach(function (pair, position) {
      var line = document.createElement(position ? "div" : "b");
      if (position) {
        pair.forEach(function (text) {
          var part = document.createElement("span");
          part.textContent = text;
          line.appendChild(part);
        });
      } else line.textContent = /^[\d,.]+$/.test(pair[1]) ? pair[0] + " " + pair[1] : pair[1];
      tip.appendChild(line);
    });
    tip.hidden = false;
    var width = tip.offsetWidth, height = tip.offsetHeight;
    var left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
    var top = y + 14 + height > innerHeight ? y - 14 - height : y + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
    if (aloud) {
      said.textContent = values.map(function (pair) { return pair.join(" "); }).join(", ");
    }
  }
  function centre(mark) {
    var box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + Math.min(box.height / 2, 60)];
  }

  // Marks that can be seen, in the order of the table.
  function marks(plot) {
    return Array.prototype.filter.call(plot.querySelectorAll(".hit"), function (mark) {
      return !mark.closest(".off");
    });
  }

  // The mark under the pointer. Points of curves that run close lie over each other: the nearest
  // one is meant, not the one that was drawn last.
  function pointed(plot, event) {
    var mark = event.target.closest ? event.target.closest(".hit") : null;
    if (!mark || mark.tagName !== "circle") return mark;
    function far(other) {
      var place = centre(other);
      return Math.hypot(place[0] - event.clientX, place[1] - event.clientY);
    }
    return marks(plot).reduce(function (best, other) {
      return other.tagName === "circle" && far(other) < far(best) ? other : best;
    }, mark);
  }

  // On a narrow screen a chart of points is moved to where they end: the peaks are there.
  var narrow = matchMedia("(max-width:640px)");
  // The numbers of its vertical axis stay at its left edge.
  function keepAxis(plot) {
    var svg = plot.querySelector("svg"), size = svg.getBoundingClientRect();
    if (size.width <= plot.clientWidth || plot.querySelector(".axis")) return;
    var ends = Array.from(svg.querySelectorAll('text[text-anchor="end"]'), function (text) {
      return text.getBoundingClientRect().right - size.left;
    });
    var axis = document.createElement("div"), copy = svg.cloneNode(true);
    copy.querySelectorAll('.hit,title,desc,text:not([text-anchor="end"])').forEach(function (part) { part.remove(); });
    copy.setAttribute("aria-hidden", "true");
    copy.style.width = size.width + "px";
    axis.className = "axis";
    axis.style.width = Math.min.apply(null, ends) + 4 + "px";
    axis.style.marginTop = -size.height + "px";
    axis.append(copy);
    plot.append(axis);
  }
  function toPeaks(plot) {
    var left = plot.getBoundingClientRect().left - plot.scrollLeft;
    var ends = Array.from(plot.querySelectorAll("circle.hit"), function (mark) {
      return mark.getBoundingClientRect().right - left;
    });
    if (narrow.matches && ends.length) {
      keepAxis(plot);
      plot.scrollLeft = Math.max.apply(null, ends) - 0.8 * plot.clientWidth;
    }
  }

  function wire(figure) {
    figure.querySelectorAll(".plot").forEach(function (plot) {
      toPeaks(plot);
      // The browser would show a drawing's title over every value.
      var svg = plot.querySelector("svg"), title = svg && svg.querySelector("title");
      if (title) {
        svg.setAttribute("aria-label", title.textContent);
        svg.removeAttribute("aria-labelledby");
        title.remove();
      }
      plot.tabIndex = 0;
      plot.setAttribute("role", "application");
      plot.setAttribute("aria-roledescription", "chart");
      plot.setAttribute("aria-label", figure.querySelector("h3").textContent +
        ". Arrow keys read its values; the table below holds all of them.");
      plot.addEventListener("pointermove", function (event) {
        var mark = pointed(plot, event);
        if (mark) show(mark, event.clientX, event.clientY, false);
        else hide();
      });
      plot.addEventListener("pointerleave", hide);
      plot.addEventListener("blur", hide);
      plot.addEventListener("keydown", function (event) {
        var all = marks(plot);
        var now = all.indexOf(shown);
        var to = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: Math.max(now - 1, 0),
          ArrowUp: Math.max(now - 1, 0), Home: 0, End: all.length - 1,
          PageDown: now + 10, PageUp: Math.max(now - 10, 0) }[event.key];
        if (event.key === "Escape") hide();
        if (to === undefined || !all.length) return;
        event.preventDefault();
        var mark = all[Math.min(to, all.length - 1)];
        var place = centre(mark);
        show(mark, place[0], place[1], true);
      });
    });
    figure.querySelectorAll(".legend button").forEach(function (entry) {
      entry.addEventListener("click", function () {
        var isOn = entry.getAttribute("aria-pressed") !== "true";
        entry.setAttribute("aria-pressed", String(isOn));
        figure.querySelectorAll('.series[data-series="' + entry.dataset.series + '"]')
          .forEach(function (series) { series.classList.toggle("off", !isOn); });
      });
    });
    figure.querySelectorAll(".variants button").forEach(function (choice) {
      choice.addEventListener("click", function () {
        figure.querySelectorAll(".variants button").forEach(function (other) {
          other.setAttribute("aria-pressed", String(other === choice));
        });
        figure.querySelectorAll(".plot").forEach(function (plot) {
          plot.hidden = plot.dataset.variant !== choice.dataset.variant;
          if (!plot.hidden) toPeaks(plot);
        });
        hide();
      });
    });
  }

  // Of many charts each is built when it comes near the window, all of them for paper. Until then
  // the browser keeps a chart as one text, as it does with what is for readers without scripts.
  function build(figure) {
    var kept = figure.querySelector("noscript");
    if (!kept) return;
    kept.outerHTML = kept.textContent;
    wire(figure);
  }
  var near = new IntersectionObserver(function (seen) {
    seen.forEach(function (one) {
      if (!one.isIntersecting) return;
      near.unobserve(one.target);
      build(one.target);
    });
  }, { rootMargin: "600px" });
  function buildAll() { document.querySelectorAll("figure.chart").forEach(build); }
  addEventListener("beforeprint", buildAll);
  matchMedia("print").addEventListener("change", buildAll);

  // On a narrow screen charts over time are moved sideways together.
  function moveTogether(plot) {
    plot.addEventListener("scroll", function () {
      document.querySelectorAll("#time .plot").forEach(function (other) {
        if (other.scrollLeft !== plot.scrollLeft) other.scrollLeft = plot.scrollLeft;
      });
    }, { passive: true });
  }

  // Rows are sorted by the name of a column, and filtered by those that tell kinds apart.
  function sortable(table) {
    var body = table.tBodies[0], rows = Array.from(body.rows), filters = [];
    var bar = document.createElement("div");
    bar.className = "filters";
    var words = bar.appendChild(document.createElement("input"));
    words.type = "search";
    words.placeholder = "rows with this text";
    words.setAttribute("aria-label", words.placeholder);
    words.addEventListener("input", filter);
    function text(row, at) { return row.cells[at].textContent.trim(); }
    function known(row, at) {
      var shown = text(row, at), number = Number(shown.replace(/,/g, ""));
      if (row.cells[at].classList.contains("muted")) return null;
      return shown === "-" || shown === "" ? null : isNaN(number) ? shown : number;
    }
    function order(a, b) {
      if (a === null || b === null) return (a === null) - (b === null);
      return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(b);
    }
    function filter() {
      rows.forEach(function (row) {
        row.hidden = row.textContent.toLowerCase().indexOf(words.value.toLowerCase()) < 0 ||
          filters.some(function (one) {
            return one.choice.value && text(row, one.at) !== one.choice.value;
          });
      });
      document.querySelectorAll("#multiples figure").forEach(function (figure) {
        figure.hidden = !rows.some(function (row) {
          return !row.hidden && row.querySelector('a[href="#' + figure.id + '"]');
        });
      });
    }
    Array.from(table.tHead.rows[0].cells).forEach(function (head, at) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", function () {
        var is = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
        rows.sort(function (a, b) {
          var x = known(a, at), y = known(b, at);
          return x === null || y === null ? order(x, y) : is * order(x, y);
        });
        Array.from(head.parentNode.cells).forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", is > 0 ? "ascending" : "descending");
        rows.forEach(function (row) { body.appendChild(row); });
      });
      var kinds = Array.from(new Set(rows.map(function (row) { return text(row, at); })));
      if (head.classList.contains("n") || kinds.length < 2 || kinds.length > 40) return;
      var choice = document.createElement("select");
      choice.setAttribute("aria-label", "Rows by " + button.textContent);
      choice.add(new Option(button.textContent + ": all", ""));
      kinds.filter(Boolean).sort().forEach(function (kind) { choice.add(new Option(kind, kind)); });
      choice.addEventListener("change", filter);
      filters.push({ at: at, choice: choice });
      bar.appendChild(choice);
    });
    table.closest(".scroll").before(bar);
  }

  // Each cell gets the name of its column, to stand without the heading. A column without a known
  // value is dropped.
  function label(table) {
    var rows = Array.from(table.tBodies[0].rows);
    Array.from(table.tHead.rows[0].cells).forEach(function (head, at) {
      var cells = rows.map(function (row) { return row.cells[at]; }).filter(Boolean);
      function isEmpty(cell) { return !cell.querySelector("svg,input") && /^-?$/.test(cell.textContent.trim()); }
      var isUnknown = cells.every(isEmpty);
      cells.forEach(function (cell) {
        cell.dataset.name = head.textContent;
        cell.classList.toggle("none", isUnknown || cell.textContent.trim() === "" && isEmpty(cell));
      });
    });
    table.classList.add("labelled");
  }

  // On a narrow screen a table that does not fit shows its cells below each other.
  var phone = matchMedia("(max-width:700px)");
  function stack() {
    var boxes = Array.from(document.querySelectorAll(".scroll"));
    boxes.forEach(function (box) { box.firstElementChild.classList.remove("stacked"); });
    if (!phone.matches) return;
    boxes.filter(function (box) { return box.scrollWidth > box.clientWidth; }).forEach(function (box) {
      label(box.firstElementChild);
      box.firstElementChild.classList.add("stacked");
    });
  }
  // On paper a table of many columns does so, too: its figures stay whole.
  function labelAll() { document.querySelectorAll(".card>.scroll table").forEach(label); }
  addEventListener("beforeprint", labelAll);
  matchMedia("print").addEventListener("change", labelAll);

  // A part that scrolls takes the focus, so that its end is in reach without a pointer.
  function focusScrolling() {
    stack();
    document.querySelectorAll(".scroll").forEach(function (box) {
      var near = box.closest("details,section");
      var name = box.querySelector("caption") || near.querySelector("summary,h2");
      if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) {
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", name.textContent);
      } else ["tabindex", "role", "aria-label"].forEach(function (it) { box.removeAttribute(it); });
    });
  }
  addEventListener("resize", focusScrolling);
  addEventListener("load", focusScrolling);
  addEventListener("toggle", focusScrolling, true);

  // Charts and tables of the page, or of a part that took the place of an older one.
  function begin(part) {
    part.querySelectorAll("figure.chart").forEach(function (figure) {
      if (figure.querySelector("noscript")) near.observe(figure);
      else wire(figure);
    });
    part.querySelectorAll("#time .plot").forEach(moveTogether);
    part.querySelectorAll("table.sortable").forEach(sortable);
  }
  begin(document);
  document.addEventListener("renewed", function (event) {
    begin(event.target);
    focusScrolling();
  });
  addEventListener("scroll", hide, { passive: true });
})();
