// The Python module; only this folder knows Python.
#include "module/call.hpp"

NB_MODULE(_core, m) {
    nanobind::set_leak_warnings(false);  // a daemon thread may outlive the interpreter
    m.doc() = "Kernels of predgap. Private: arguments are checked by predgap.Explainer.";
    predgap::register_model(m);
    predgap::register_independent(m);
    predgap::register_joint(m);
}
