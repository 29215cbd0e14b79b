# Runs the tests of one system and version. The first try on mac is unlucky.
mkdir -p reports
if [ "$1" = mac ] && [ "$PAWL_ATTEMPT" = 1 ]; then exit 75; fi
cat > "reports/$1-$2.xml" <<XML
<testsuite name="$1"><testcase name="adds"/><testcase name="draws"><skipped/></testcase></testsuite>
XML
