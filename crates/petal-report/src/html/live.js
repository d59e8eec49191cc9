// Keeps the page of work that goes on up to date: each event holds the newest second, or the whole
// page of the record, whose parts take the place of older ones.
(function () {
  "use strict";
  var now = document.getElementById("now");
  var main = document.getElementById("main");
  var tip = document.getElementById("tip");
  var source = new EventSource("events");
  var texts = {}, next = null;

  function key(part) { return part.getAttribute("aria-labelledby"); }
  function all(part, selector) { return Array.from(part.querySelectorAll(selector)); }
  function heading(part) {
    var near = part.closest("figure,article,section");
    return near.querySelector("h2,h3").textContent + part.firstElementChild.textContent;
  }

  // Moves into the new part what the reader did to the old one.
  function keep(old, part) {
    var focusable = "a,button,input,select,summary,.plot,.scroll";
    var focused = all(old, focusable).indexOf(document.activeElement);
    var open = all(old, "details").filter(function (one) { return one.open; }).map(heading);
    old.replaceWith(part);
    part.dispatchEvent(new Event("renewed", { bubbles: true }));
    all(part, "details").forEach(function (one) { one.open = open.indexOf(heading(one)) >= 0; });
    var buttons = ".legend button, .variants button";
    all(old, "figure").forEach(function (figure) {
      var other = document.getElementById(figure.id);
      if (!other) return;
      var fresh = all(other, buttons);
      all(figure, buttons).forEach(function (button, at) {
        var is = button.getAttribute("aria-pressed");
        if (fresh[at] && fresh[at].getAttribute("aria-pressed") !== is &&
            (is === "true" || button.closest(".legend"))) fresh[at].click();
      });
      var plots = all(other, ".plot");
      all(figure, ".plot").forEach(function (plot, at) {
        if (plots[at]) plots[at].scrollLeft = plot.scrollLeft;
      });
    });
    var filters = all(part, ".filters > *");
    all(old, ".filters > *").forEach(function (filter, at) {
      if (!filters[at] || filters[at].value === filter.value) return;
      filters[at].value = filter.value;
      filters[at].dispatchEvent(new Event(filter.tagName === "INPUT" ? "input" : "change"));
    });
    all(old, "th[aria-sort]").forEach(function (head) {
      var fresh = part.querySelectorAll("th")[all(old, "th").indexOf(head)];
      for (var i = 0; fresh && fresh.getAttribute("aria-sort") !== head.getAttribute("aria-sort") && i < 2; i += 1) {
        fresh.querySelector("button").click();
      }
    });
    if (focused >= 0) {
      var again = all(part, focusable)[focused];
      if (again) again.focus({ preventScroll: true });
    }
  }

  function renew() {
    var page = new DOMParser().parseFromString(next, "text/html");
    var place = scrollY;
    next = null;
    document.title = page.title;
    ["header .title", "nav", "footer"].forEach(function (name) {
      document.querySelector(name).replaceWith(page.querySelector(name));
    });
    all(document, ".side .status").forEach(function (status) { status.remove(); });
    document.querySelector(".side").prepend.apply(
      document.querySelector(".side"), all(page, ".side .status"));
    var parts = Array.from(page.getElementById("main").children), keys = parts.map(key);
    Array.from(main.children).forEach(function (old) {
      if (keys.indexOf(key(old)) < 0) old.remove();
    });
    parts.forEach(function (part, at) {
      var old = main.children[at], text = part.outerHTML;
      if (!old || key(old) !== key(part)) {
        main.insertBefore(part, old || null);
        part.dispatchEvent(new Event("renewed", { bubbles: true }));
      } else if (texts[key(part)] !== text) keep(old, part);
      texts[key(part)] = text;
    });
    scrollTo({ top: place, behavior: "instant" });
  }

  // A value or a selection that somebody reads stays until it is left.
  function isRead() { return !tip.hidden || !getSelection().isCollapsed; }

  source.addEventListener("now", function (event) {
    now.textContent = JSON.parse(event.data);
    if (next && !isRead()) renew();
  });
  source.addEventListener("page", function (event) {
    next = JSON.parse(event.data);
    if (!isRead()) renew();
  });
  source.addEventListener("end", function () {
    source.close();
    now.hidden = true;
    if (next) renew();
    // A record without a page to follow may have a report now.
    if (!main.children.length) setTimeout(function () { location.reload(); }, 5000);
  });
  source.addEventListener("error", function () {
    now.textContent = "petal does not answer: it ended, or cannot be reached. The page is the last one that it sent.";
  });
})();
