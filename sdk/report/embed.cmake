# cmake -DFOLDER=page -DOUT=page_text.cc -P embed.cmake: page.html with its style and scripts in it, as a C++ constant.
file(READ ${FOLDER}/page.html PAGE)
file(READ ${FOLDER}/page.css STYLE)
set(SCRIPT "")
foreach(PART base schedule canvas timeline roofline table details memory refusal compare main)
  file(READ ${FOLDER}/${PART}.js TEXT)
  string(APPEND SCRIPT "${TEXT}")
endforeach()
foreach(PART STYLE SCRIPT)
  string(REPLACE "@${PART}@" "${${PART}}" PAGE "${PAGE}")
endforeach()
if(PAGE MATCHES "\\)page\"")
  message(FATAL_ERROR "${FOLDER}: holds the end of a raw string literal")
endif()
file(WRITE ${OUT} "namespace backplane::report {
extern const char kPage[];
extern const unsigned long kPageBytes;
const char kPage[] = R\"page(${PAGE})page\";
const unsigned long kPageBytes = sizeof(kPage) - 1;
}  // namespace backplane::report
")
