(() => {
  "use strict";
  const rows = document.getElementById("rows");
  const topics = [...rows.querySelectorAll(":scope > .topic")];
  const filter = document.getElementById("filter");
  const toggle = document.getElementById("toggle");
  const matching = document.getElementById("matching");
  const heads = [...document.querySelectorAll(".head button")];

  document.querySelector(".controls").hidden = !topics.length;

  // "orders-12" is a partition as brokers name it, and may be a part of a topic's name as well.
  const only = (topic, number) => {
    const partitions = [...topic.querySelectorAll(".partition")];
    const isThere = number !== null && partitions.some((partition) => partition.dataset.partition === number);
    partitions.forEach((partition) => { partition.hidden = isThere && partition.dataset.partition !== number; });
    if (isThere) topic.open = true;
  };
  const show = () => {
    const words = filter.value.trim().toLowerCase();
    const partition = /^(.*)-(\d+)$/.exec(words);
    const level = document.querySelector("[name=level]:checked").value;
    let shown = 0;
    for (const topic of topics) {
      const name = topic.dataset.topic.toLowerCase();
      const isPartition = partition !== null && !name.includes(words) && name.endsWith(partition[1]);
      topic.hidden = !((isPartition || name.includes(words)) && (!level || topic.dataset.level === level));
      only(topic, isPartition ? partition[2] : null);
      shown += !topic.hidden;
    }
    matching.textContent = shown === topics.length ? "" : `${shown} of ${topics.length} topics`;
  };
  filter.addEventListener("input", show);
  document.querySelectorAll("[name=level]").forEach((input) => input.addEventListener("change", show));

  const sort = (head) => {
    const { key, kind } = head.dataset;
    const first = kind === "text" || head.dataset.up ? 1 : -1;
    const again = head.classList.contains("sorted");
    const direction = again ? -Number(head.dataset.direction || first) : first;
    heads.forEach((other) => other.classList.remove("sorted", "up"));
    head.classList.add("sorted");
    head.classList.toggle("up", direction !== first);
    heads.forEach((other) => other.setAttribute("aria-pressed", other === head));
    head.dataset.direction = direction;
    const value = (topic) => (kind === "text" ? topic.dataset[key] : Number(topic.dataset[key]));
    const compare = (a, b) => (kind === "text" ? value(a).localeCompare(value(b)) : value(a) - value(b));
    rows.append(...[...topics].sort((a, b) => direction * compare(a, b)));
  };
  heads.forEach((head) => {
    head.setAttribute("aria-pressed", head.classList.contains("sorted"));
    head.addEventListener("click", () => sort(head));
  });

  toggle.addEventListener("click", () => {
    const open = toggle.textContent === "Expand all";
    topics.forEach((topic) => { topic.open = open; });
    toggle.textContent = open ? "Collapse all" : "Expand all";
  });

  const copied = (button, word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  const select = (code) => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied(button, "Copied");
    } catch {
      // Some browsers give pages from file: no clipboard.
      select(code);
      copied(button, document.execCommand("copy") ? "Copied" : "Selected");
    }
  });

  const follow = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName !== "DETAILS") continue;
      node.hidden = false;
      node.open = true;
    }
    target.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();

  // Paper cannot be clicked: blocked topics are printed open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = topics.filter((topic) => !topic.open && topic.dataset.level === "BLOCKED");
    closed.forEach((topic) => { topic.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((topic) => { topic.open = false; }));
})();
