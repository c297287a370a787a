// The Python module, in parts; only this folder knows Python.
#include "module/arrays.hpp"

NB_MODULE(_core, m) {
    nanobind::set_leak_warnings(false);  // a daemon thread may outlive the interpreter
    m.doc() = "Kernels of predgap. Private: arguments are checked by predgap.Explainer.";
    predgap::bind_engine(m);
    predgap::bind_answers(m);
    predgap::bind_sampling(m);
    predgap::bind_outcomes(m);
    predgap::bind_background(m);
}
