// A browser starts no worker from a file:// page. There, run the worker's script in a hidden frame
// instead, with the part of the interface that the search uses.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      const view = frame.contentWindow;
      view.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(view, each)));
      view.postMessageToOwner = (data) => this.deliver(data);
      // Of the frame's own page: its parent is who it talks to.
      const post = view.postMessage.bind(view);
      view.postMessage = (data, ...rest) => (rest.length ? post(data, ...rest) : this.deliver(data));
      this.send = (data) => view.dispatchEvent(new view.MessageEvent("message", { data }));
      this.ready = this.load(view, url);
    }
    load(view, url) {
      return new Promise((done) => {
        const script = view.document.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = script.onerror = done;
        view.document.head.append(script);
      });
    }
    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() => this.send(data));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
