#include "session/code_facts.hpp"

namespace uprobectl {

Result<const FunctionReader*> CodeReaders::reader_of(const ProbePoint& point) {
  auto known = readers_.find(point.binary);
  if (known == readers_.end())
    known = readers_.emplace(point.binary, FunctionReader::open(point.binary, debug_places_)).first;
  if (!known->second) return fail(known->second.error());
  return &*known->second;
}

CodeFacts CodeReaders::facts_of(const ProbePoint& point, bool strings) {
  CodeFacts facts;
  if (!point.binary->machine.is_64bit) facts.kind = CodeKind::native_32;
  const auto reader = reader_of(point);
  if (!reader) return facts;
  if ((*reader)->language_of(point) == CodeLanguage::go) facts.kind = CodeKind::go;
  if (!strings) return facts;
  switch ((*reader)->string_layout()) {
  case StringLayout::libstdcxx:
    facts.strings = READ_LIBSTDCXX_STRING;
    break;
  case StringLayout::libcxx:
    facts.strings = READ_LIBCXX_STRING;
    break;
  case StringLayout::unknown:
    break;
  }
  return facts;
}

} // namespace uprobectl
