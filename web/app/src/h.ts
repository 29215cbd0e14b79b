// What elements are made with; the build puts it into each file, under names that no file has.
export { Fragment as $Fragment, h as $h } from "preact";
