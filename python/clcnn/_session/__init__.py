"""Parts of clcnn.session and clcnn.session_options, which offer what is public of them."""
