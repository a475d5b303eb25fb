(() => {
  "use strict";
  const rows = document.getElementById("rows");
  const filter = document.getElementById("filter");
  const toggle = document.getElementById("toggle");
  const matching = document.getElementById("matching");
  const moreTopics = document.getElementById("more-topics");
  const heads = [...document.querySelectorAll(".head button")];
  const run = document.documentElement.dataset.run;
  let topics = rows ? [...rows.querySelectorAll(":scope > .topic")] : [];

  // Files beside the page are scripts, because a page from file: may load nothing else. They hold escaped HTML.
  const waiting = new Map();
  window.tiersnapLoaded = (name, of, html) => {
    const loading = waiting.get(name);
    if (!loading) return;
    if (of !== run) return loading.fail(new Error("a newer run has replaced this one: reload the page"));
    const template = document.createElement("template");
    template.innerHTML = html;
    loading.done(template.content);
  };
  const load = (name) => {
    if (!waiting.has(name)) {
      const loading = {};
      loading.promise = new Promise((done, fail) => Object.assign(loading, { done, fail }));
      waiting.set(name, loading);
      const script = document.createElement("script");
      script.src = name;
      script.onerror = () => loading.fail(new Error(`${name} is not beside this page`));
      document.head.append(script);
    }
    return waiting.get(name).promise;
  };

  // Partitions that the page does not hold, by topic, in pieces.
  const restOf = (topic) => (topic.dataset.rest ? topic.dataset.rest.split(",") : []);
  const loaded = (topic) => (topic.loaded ||= new Set());
  const pieces = (topic) => Math.ceil(restOf(topic).length / Number(topic.dataset.page || 1));
  const loadPiece = async (topic, piece) => {
    if (loaded(topic).has(piece)) return;
    loaded(topic).add(piece);
    const note = topic.querySelector(":scope > .partitions > .rest");
    try {
      note.before(await load(`details/${topic.dataset.number}-${piece}.js`));
    } catch (error) {
      note.querySelector("span").textContent = `${error.message}. `;
      return;
    }
    const left = restOf(topic).length - loaded(topic).size * Number(topic.dataset.page);
    note.hidden = left <= 0;
    note.querySelector("span").textContent = `${left} more partitions. `;
  };
  const loadNext = (topic) => {
    for (let piece = 0; piece < pieces(topic); piece++) {
      if (!loaded(topic).has(piece)) return loadPiece(topic, piece);
    }
    return Promise.resolve();
  };
  const loadPartition = async (topic, number) => {
    const rest = restOf(topic);
    const found = new Set();
    rest.forEach((each, place) => { if (each === number) found.add(Math.floor(place / Number(topic.dataset.page))); });
    for (const piece of found) await loadPiece(topic, piece);
  };
  const adopt = (topic) => {
    const button = topic.querySelector(":scope > .partitions > .rest .more");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => loadNext(topic));
    topic.addEventListener("toggle", () => {
      const isOne = !topic.isOneOfMany;
      topic.isOneOfMany = false;
      if (topic.open && isOne && !loaded(topic).size) loadNext(topic);
    });
  };
  topics.forEach(adopt);

  // Topics that the page does not hold.
  let topicPieces = 0;
  const loadTopics = async () => {
    if (!moreTopics || topicPieces >= Number(moreTopics.dataset.pages)) return false;
    topicPieces += 1;
    try {
      const content = await load(`details/topics-${topicPieces}.js`);
      // Not by ":scope >": in a fragment it matches nothing.
      const found = [...content.children].filter((each) => each.matches(".topic"));
      rows.append(content);
      topics = [...topics, ...found];
      found.forEach(adopt);
    } catch (error) {
      moreTopics.after(` ${error.message}. `);
      return false;
    }
    moreTopics.hidden = topicPieces >= Number(moreTopics.dataset.pages);
    return true;
  };
  const allTopics = async () => { while (await loadTopics()); };
  if (moreTopics) {
    moreTopics.hidden = false;
    moreTopics.addEventListener("click", loadTopics);
  }

  // "orders-12" is a partition as brokers name it, and may be a part of a topic's name as well.
  const only = (topic, number) => {
    const partitions = [...topic.querySelectorAll(".partition")];
    const isThere = number !== null && partitions.some((partition) => partition.dataset.partition === number);
    partitions.forEach((partition) => { partition.hidden = isThere && partition.dataset.partition !== number; });
    if (isThere) topic.open = true;
  };
  const show = async () => {
    if (filter.value || document.querySelector("[name=level]:checked").value) await allTopics();
    const words = filter.value.trim().toLowerCase();
    const partition = /^(.*)-(\d+)$/.exec(words);
    const level = document.querySelector("[name=level]:checked").value;
    let shown = 0;
    for (const topic of topics) {
      const name = topic.dataset.topic.toLowerCase();
      const isPartition = partition !== null && !name.includes(words) && name.endsWith(partition[1]);
      topic.hidden = !((isPartition || name.includes(words)) && (!level || topic.dataset.level === level));
      only(topic, isPartition ? partition[2] : null);
      if (isPartition && !topic.hidden && restOf(topic).includes(partition[2])) {
        topic.isOneOfMany = !topic.open;
        loadPartition(topic, partition[2]).then(() => only(topic, partition[2]));
      }
      shown += !topic.hidden;
    }
    matching.textContent = shown === topics.length ? "" : `${shown} of ${topics.length} topics`;
  };

  const sort = async (head) => {
    await allTopics();
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

  if (rows) {
    document.querySelector(".controls").hidden = !topics.length;
    filter.addEventListener("input", show);
    document.querySelectorAll("[name=level]").forEach((input) => input.addEventListener("change", show));
    heads.forEach((head) => {
      head.setAttribute("aria-pressed", head.classList.contains("sorted"));
      head.addEventListener("click", () => sort(head));
    });
    toggle.addEventListener("click", () => {
      const open = toggle.textContent === "Expand all";
      // Not all of their partitions at once: a fleet has too many.
      topics.forEach((topic) => { topic.isOneOfMany = open && !topic.open; topic.open = open; });
      toggle.textContent = open ? "Collapse all" : "Expand all";
    });
  }

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

  // A link to a partition that is not here yet loads it.
  const fetchTarget = async (id) => {
    const inTopic = () => topics.find((topic) => {
      const prefix = `p-${topic.id.slice(2)}-`;
      return id.startsWith(prefix) && restOf(topic).includes(id.slice(prefix.length).split("@")[0]);
    });
    if (/^[pt]-/.test(id) && !inTopic()) await allTopics();
    const topic = inTopic();
    if (topic) await loadPartition(topic, id.slice(topic.id.length + 1).split("@")[0]);
  };
  const follow = async () => {
    const id = location.hash.slice(1);
    if (!id) return;
    if (!document.getElementById(id)) await fetchTarget(id);
    const target = document.getElementById(id);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName !== "DETAILS") continue;
      node.hidden = false;
      node.isOneOfMany = !node.open;
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
    closed.forEach((topic) => { topic.isOneOfMany = true; topic.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((topic) => { topic.open = false; }));
})();
