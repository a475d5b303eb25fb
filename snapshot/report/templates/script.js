(() => {
  "use strict";
  const rows = document.getElementById("rows");
  const filter = document.getElementById("filter");
  const toggle = document.getElementById("toggle");
  const matching = document.getElementById("matching");
  const moreTopics = document.getElementById("more-topics");
  const heads = [...document.querySelectorAll(".head button")];
  const run = document.documentElement.dataset.run;

  // Files beside the page are scripts, because a page from file: may load nothing else. They hold escaped HTML,
  // or sums.
  const waiting = new Map();
  window.tiersnapLoaded = (name, of, held) => {
    const loading = waiting.get(name);
    if (!loading) return;
    if (of !== run) return loading.fail(new Error("a newer run has replaced this one: reload the page"));
    const template = document.createElement("template");
    if (typeof held !== "string") return loading.done(held);
    template.innerHTML = held;
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
  const loaded = (topic) => (topic.loaded ||= new Map());
  const place = async (topic, piece) => {
    const note = topic.querySelector(":scope > .partitions > .rest");
    const words = note.querySelector("span");
    const { number, file } = topic.dataset;
    try {
      const content = await load(`details/partitions-${Number(file) + piece}.js`);
      const found = content.querySelector(`[data-number="${number}"]`).children;
      topic.placed = (topic.placed || 0) + found.length;
      note.before(...found);
    } catch (error) {
      words.textContent = `${error.message}. `;
      return;
    }
    const left = restOf(topic).length - topic.placed;
    note.hidden = !left;
    words.textContent = `${left} more partitions. `;
    only(topic);
  };
  const loadPiece = (topic, piece) => {
    if (!loaded(topic).has(piece)) loaded(topic).set(piece, place(topic, piece));
    return loaded(topic).get(piece);
  };
  const pieceOf = (topic, at) => Math.floor(at / Number(topic.dataset.page));
  const loadNext = (topic) => {
    const next = restOf(topic).findIndex((_, at) => !loaded(topic).has(pieceOf(topic, at)));
    if (next >= 0) loadPiece(topic, pieceOf(topic, next));
  };
  const loadPartition = (topic, number) => {
    const found = restOf(topic).flatMap((each, at) => (each === number ? [pieceOf(topic, at)] : []));
    return Promise.all(found.map((piece) => loadPiece(topic, piece)));
  };
  // "orders-12" is a partition as brokers name it, and may be a part of a topic's name as well.
  const only = (topic) => {
    const partitions = [...topic.querySelectorAll(".partition")];
    const isWanted = (partition) => partition.dataset.partition === topic.wanted;
    const isThere = partitions.some(isWanted);
    partitions.forEach((partition) => { partition.hidden = isThere && !isWanted(partition); });
    if (isThere) topic.open = true;
  };

  // Every topic: its sums, and its row once that is here.
  const SUMS = ["topic", "level", "worst", "partitions", "segments", "bytes", "tiered", "uploaded", "ready", "waiting"];
  const onPage = rows ? [...rows.querySelectorAll(":scope > .topic")] : [];
  const page = onPage.length;
  const sumsOf = (row) => Object.fromEntries(SUMS.map((name) => {
    const value = row.dataset[name];
    return [name, name === "topic" || name === "level" ? value : Number(value)];
  }));
  const all = onPage.map((row, number) => ({ ...sumsOf(row), number, row }));
  let isExpanded = false;
  const expand = (row) => {
    // Not all of their partitions at once: a fleet has too many.
    row.isOneOfMany = isExpanded && !row.open;
    row.open = isExpanded;
  };
  const adopt = (row) => {
    if (isExpanded) expand(row);
    const button = row.querySelector(":scope > .partitions > .rest .more");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => loadNext(row));
    row.addEventListener("toggle", () => {
      const isOne = !row.isOneOfMany;
      row.isOneOfMany = false;
      if (row.open && isOne && !loaded(row).size) loadNext(row);
    });
  };
  onPage.forEach(adopt);
  const loadSums = async () => {
    if (!moreTopics || all.length > page) return;
    const further = await load("details/topics.js");
    if (all.length > page) return;
    for (const each of further) {
      all.push({ ...Object.fromEntries(SUMS.map((name, at) => [name, each[at]])), number: all.length, row: null });
    }
  };
  const loadRows = async (wanted) => {
    const needed = new Set(wanted.filter((topic) => !topic.row).map((topic) => Math.floor(topic.number / page)));
    for (const each of needed) {
      const content = await load(`details/topics-${each}.js`);
      for (const row of content.querySelectorAll(".topic")) {
        all[Number(row.dataset.number)].row = row;
        adopt(row);
      }
    }
  };

  let order = null;
  let limit = page;
  let turn = 0;
  const wantedTopics = (words, level) => {
    const partition = /^(.*)-(\d+)$/.exec(words);
    const found = all.filter((topic) => {
      const name = topic.topic.toLowerCase();
      const isPartition = partition !== null && !name.includes(words) && name.endsWith(partition[1]);
      topic.wanted = isPartition ? partition[2] : undefined;
      return (isPartition || name.includes(words)) && (!level || topic.level === level);
    });
    if (order) found.sort(order);
    const named = found.findIndex((topic) => topic.topic.toLowerCase() === words);
    return named > 0 ? [...found.splice(named, 1), ...found] : found;
  };
  const say = (shown, found) => {
    matching.textContent = found === all.length ? "" : `${found} of ${all.length} topics`;
    if (!moreTopics) return;
    moreTopics.hidden = shown === found;
    moreTopics.previousElementSibling.textContent = `Here are ${shown} of ${found} topics.`;
  };
  const show = async () => {
    const mine = ++turn;
    const words = filter.value.trim().toLowerCase();
    const level = document.querySelector("[name=level]:checked").value;
    try {
      if (words || level || order || limit > page) await loadSums();
      const found = wantedTopics(words, level);
      const shown = found.slice(0, limit);
      if (shown.some((topic) => !topic.row)) matching.textContent = "Loading …";
      await loadRows(shown);
      if (mine !== turn) return; // somebody has asked for something else meanwhile
      rows.replaceChildren(...shown.map((topic) => topic.row));
      for (const { row, wanted } of shown) {
        row.wanted = wanted;
        only(row);
        if (!restOf(row).includes(wanted)) continue;
        row.isOneOfMany = !row.open;
        loadPartition(row, wanted);
      }
      say(shown.length, found.length);
    } catch (error) {
      matching.textContent = `${error.message}. `;
    }
  };

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
    const { compare } = new Intl.Collator();
    order = (a, b) => direction * (kind === "text" ? compare(a[key], b[key]) : a[key] - b[key]);
    return show();
  };

  if (rows) {
    document.querySelector("#topics .controls").hidden = !page;
    filter.addEventListener("input", show);
    document.querySelectorAll("[name=level]").forEach((input) => input.addEventListener("change", show));
    heads.forEach((head) => {
      head.setAttribute("aria-pressed", head.classList.contains("sorted"));
      head.addEventListener("click", () => sort(head));
    });
    toggle.addEventListener("click", () => {
      isExpanded = !isExpanded;
      [...rows.children].forEach(expand);
      toggle.textContent = isExpanded ? "Collapse all" : "Expand all";
    });
  }
  if (moreTopics) {
    moreTopics.hidden = false;
    moreTopics.addEventListener("click", () => { limit += page; show(); });
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
  // A part of a command that only its reader knows is a field. What is typed once stands in all commands of the page.
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
  const commandOf = (code) => [...code.childNodes].map((part) => (
    part.tagName === "INPUT" ? quoted(part.value.trim()) : part.textContent)).join("");
  const holesOf = (command) => [...command.querySelectorAll(".hole")];
  document.addEventListener("input", ({ target }) => {
    if (!target.matches(".hole")) return;
    for (const hole of document.querySelectorAll(".hole")) {
      if (hole.placeholder === target.placeholder) hole.value = target.value;
      const command = hole.closest(".command");
      command.querySelector(".copy").disabled = holesOf(command).some((each) => !each.value.trim());
    }
  });
  const selectText = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(commandOf(code));
      copied(button, "Copied");
    } catch {
      // Some browsers give pages from file: no clipboard.
      const isCopied = selectText(commandOf(code));
      if (!isCopied) select(code);
      copied(button, isCopied ? "Copied" : "Selected");
    }
  });

  // Tables of the other pages: rows by name and kind.
  document.querySelectorAll(".controls[data-rows]").forEach((controls) => {
    const list = [...document.getElementById(controls.dataset.rows).rows];
    const narrow = () => {
      const words = controls.querySelector("[type=search]").value.trim().toLowerCase();
      const { value: kind } = controls.querySelector("[type=radio]:checked");
      list.forEach((row) => {
        const { kind: own, name } = row.dataset;
        row.hidden = (kind && own !== kind) || !name.toLowerCase().includes(words);
      });
      const shown = list.filter((row) => !row.hidden).length;
      controls.querySelector(".matching").textContent = shown === list.length ? "" : `${shown} of ${list.length} rows`;
    };
    controls.hidden = false;
    controls.addEventListener("input", narrow);
  });

  // A link to a topic or partition that is not here yet loads it; one that is not listed is filtered for.
  const hex = (each) => `%${each.charCodeAt().toString(16).toUpperCase()}`;
  const quote = (name) => encodeURIComponent(name).replace(/[!'()*]/g, hex);
  const fetchTarget = async (id) => {
    const [, ofPartition, number, ofTopic] = /^(?:p-(.*)-(\d+)(?:@.*)?|t-(.*))$/.exec(id) || [];
    const quoted = ofPartition ?? ofTopic;
    if (!quoted) return;
    await loadSums().catch(() => null); // then only what is here can be found
    const topic = all.find((each) => quote(each.topic) === quoted);
    if (!topic) return;
    if (!topic.row?.isConnected) {
      filter.value = topic.topic;
      document.querySelector("[name=level]").checked = true;
      await show();
    }
    if (topic.row && number) await loadPartition(topic.row, number);
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
    // The browser takes what was not there when it followed the link for no :target.
    document.querySelector(".target")?.classList.remove("target");
    target.classList.add("target");
    target.querySelector("summary")?.focus({ preventScroll: true });
    target.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();

  // Paper cannot be clicked: blocked topics are printed open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...rows?.children ?? []].filter((row) => !row.open && row.dataset.level === "BLOCKED");
    closed.forEach((row) => { row.isOneOfMany = true; row.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((row) => { row.open = false; }));
})();
