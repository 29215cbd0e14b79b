// What elements are made with; the build puts it into each file.
export { Fragment, h } from "preact";
