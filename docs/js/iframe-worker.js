// Browsers refuse to start a worker for a page that was opened from a folder (file://). The search only needs a worker's
// outside: messages in, messages out. So there, and only there, a hidden frame takes the worker's part.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><body></body>";
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true })).then(() => {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.deliver(data); // what the worker sends goes to the page
        inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
        return this.load(url);
      });
      document.body.append(this.frame);
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: url, async: false, onload: resolve, onerror: reject });
        this.frame.contentDocument.body.append(script);
      });
    }
    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
